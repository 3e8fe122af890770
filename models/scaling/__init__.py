"""Scaling of features and training targets, and the columns of a model's output."""
