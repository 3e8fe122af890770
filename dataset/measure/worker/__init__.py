"""Worker processes: how they are started, what they compile and time."""
