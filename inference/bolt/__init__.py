"""Bolt: GPU templates in a network, and advice to its designer."""
