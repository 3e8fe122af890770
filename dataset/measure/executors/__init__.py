"""Executors: the devices that measure programs."""
