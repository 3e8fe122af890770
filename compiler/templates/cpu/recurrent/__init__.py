"""Recurrent layers over any number of steps: cells, activations, and the kernel that runs all steps."""
