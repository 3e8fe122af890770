"""Planner that searches some tasks in full and others from their programs."""
