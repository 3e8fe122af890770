"""Worker processes: their start, compilation and timing."""
