"""Recurrent layers over any number of steps: PyTorch's layers as one operator, and its conversion."""
