"""Tuning database: measured schedules, predicted ones and notes."""
