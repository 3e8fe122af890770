"""A tuning run: its configuration, one network or a set of them, and its result."""
