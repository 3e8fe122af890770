"""Symbols of dynamic shapes. Works without TVM and PyTorch."""
