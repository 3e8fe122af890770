"""Advice to the designer of a network: measured costs of activations, widths and 1x1 convolutions."""
