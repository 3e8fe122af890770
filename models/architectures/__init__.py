"""Cost models: their interface, one module for each architecture, and the registry.

Importing the package registers the networks of all its modules.
"""

from .registry import discover

discover(__name__, __path__)
