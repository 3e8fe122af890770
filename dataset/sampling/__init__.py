"""Sampling: which tasks a dataset has, and which programs of each are measured."""
