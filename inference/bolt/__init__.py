"""Bolt: GPU templates in a network, and advice to the network's designer."""
