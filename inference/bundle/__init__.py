"""Bundles: the schedules of a tuning database as one file, for other machines and other people."""
