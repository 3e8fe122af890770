"""Compiled networks: build, export, compare outputs, time."""
