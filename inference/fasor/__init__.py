"""Fasor: exploration by a deep Q-network, the sub-space of critical primitives, and pretuned schedules."""
