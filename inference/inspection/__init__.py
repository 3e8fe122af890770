"""Overview of a network before tuning: tasks, schedules, predicted latencies, expected minutes."""
