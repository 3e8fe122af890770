"""Attention as one task: products, softmax and values in blocks, whose scores stay in cache."""
