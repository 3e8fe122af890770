"""Foretune: pretrained learned cost models for tensor-program tuning with a stock Apache TVM."""

__version__ = "0.1.0"
