"""Task planners that `search/planner=` chooses."""
