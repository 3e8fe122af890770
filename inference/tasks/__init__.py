"""Tuning of several tasks: planners, supervision of search processes, measuring and persistence."""
