"""Comparison of cost models on one split."""
