"""Alternatives: other algorithms for pieces of a network, of which a search keeps the fastest."""
