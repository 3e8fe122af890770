"""The search: its settings, the tuner of all tasks, the session and loop of one task."""
