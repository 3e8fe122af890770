"""Metrics of predictions for tasks and networks, and calibration of their uncertainty."""
