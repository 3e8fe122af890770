"""Planners that spend one budget of programs on all tasks, and the registry of `search/planner=`."""
