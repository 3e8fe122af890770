"""Measured datasets: sampling of tasks and programs, measurement, records, features and hardware."""
