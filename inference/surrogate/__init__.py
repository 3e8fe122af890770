"""Gaussian-process surrogate over the cost model's errors, and the candidate embeddings that it reads."""
