"""Winograd's algorithm beside the direct convolution, on layers and in whole networks, timed in turns."""
