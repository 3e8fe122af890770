"""Engines that run a network, each in a process of its own: rivals of the tuned network, and that itself.

Modules here import neither TVM nor an engine before a process needs it: `peak_mb` is then the engine's own.
"""
