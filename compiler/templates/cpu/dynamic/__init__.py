"""Kernels for any size: tasks whose extents are known when a network runs, not when it is compiled."""
