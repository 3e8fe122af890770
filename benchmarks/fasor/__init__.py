"""Fasor's search compared with the default one, on a known device and after a move to a new one."""
