"""Overview of a network before it is tuned: tasks, schedules, predicted latencies, expected minutes."""
