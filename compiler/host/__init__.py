"""This process on its machine: threads, memory, signals, child processes, locks and the cache folder."""
