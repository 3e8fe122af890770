"""Task sampling: which tasks a dataset is measured on."""

from .sampling import DEFAULT_OPERATORS, SAMPLERS, TaskSamplingError, sample_settings, sample_tasks

__all__ = ["DEFAULT_OPERATORS", "SAMPLERS", "TaskSamplingError", "sample_settings", "sample_tasks"]
