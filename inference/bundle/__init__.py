"""Bundles: schedules of a tuning database in one file, for other machines and other people."""
