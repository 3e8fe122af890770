"""Evaluation of a checkpoint on measured tasks and networks."""
