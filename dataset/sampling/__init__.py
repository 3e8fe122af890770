"""Sampling: the choice of a dataset's tasks, and of the programs to measure for each task."""
