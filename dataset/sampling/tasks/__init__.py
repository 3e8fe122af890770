"""Sampling of the tasks that a dataset is measured on."""

from .sampling import SAMPLERS, TaskSamplingError, default_operators, sample_settings, sample_tasks

__all__ = ["SAMPLERS", "TaskSamplingError", "default_operators", "sample_settings", "sample_tasks"]
