"""Search by a deep Q-network that moves from program to program (Fasor, section 6.2)."""
