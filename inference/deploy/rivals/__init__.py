"""Engines that run a network in separate processes: the rivals of the tuned network, and its own engine.

Modules here import neither TVM nor an engine before a process needs them, so that `peak_mb` measures the
engine alone.
"""
