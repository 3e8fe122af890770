"""The search: its settings, the tuner of all tasks, and the session and loop of one task."""
