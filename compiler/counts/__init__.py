"""Counts of the work of a scheduled program: instructions, code size and memory traffic."""
