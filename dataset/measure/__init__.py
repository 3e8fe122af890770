"""Measurement: `MeasureJob` in, `MeasureOutcome` out, by workers that outlive what they measure."""

from .job import MeasureConfig, MeasureJob, MeasureOutcome
from .pool import WorkerPool, WorkerStartError

__all__ = ["MeasureConfig", "MeasureJob", "MeasureOutcome", "WorkerPool", "WorkerStartError"]
