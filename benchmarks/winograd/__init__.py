"""Winograd's algorithm against the direct convolution, on layers and in whole networks, timed in turns."""
