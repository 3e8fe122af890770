"""Families of tasks: which tasks of a run belong together."""
