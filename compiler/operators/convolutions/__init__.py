"""Convolutions: their settings, bases and Winograd's algorithm."""
