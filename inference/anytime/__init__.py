"""Libraries before the end of a run: first schedules, exchanges for better ones, and followers of a file."""
