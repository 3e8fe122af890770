"""Templates of chains: products that are computed back to back (Bolt, section 3.1.1)."""
