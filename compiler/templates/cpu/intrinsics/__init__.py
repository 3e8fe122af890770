"""Tensor intrinsics of templates, and their registration by name."""
