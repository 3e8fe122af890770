"""Winograd's algorithm for convolutions of symbolic extents."""
