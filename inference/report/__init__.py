"""Reports of a tuning run: terminal, JSON, HTML page and plots."""
