"""Advice to the designer of a network: activations, widths and 1x1 convolutions by their measured cost."""
