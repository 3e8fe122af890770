"""Cost models: their interface, one module for each architecture, and the registry."""
