"""This process on its machine: threads, memory, signals, child processes and locks."""
