"""Arithmetic peaks of the devices, and whether the rates of measured programs contradict them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .overview import Overview

_TOLERANCE = 1.05
"""Rate over the measured peak that is still credible: a product of large matrices measures the peak, and
small products may be a few percent faster."""


@dataclass(frozen=True)
class DevicePeak:
    """Measured float32 peak of a device."""

    device: str
    """Id of the device."""
    name: str
    gflops: float
    """Peak in 10^9 operations a second."""
    faster_tasks: int
    """Number of float32 tasks with a program that is faster than the peak allows."""

    @property
    def disturbed(self) -> bool:
        """Whether the peak cannot be right: other work slowed its measurement down."""
        return self.faster_tasks > 0


def device_peaks(overview: Overview) -> list[DevicePeak]:
    """Peak of each device with a measured one, in the order of the dataset."""
    valid = overview.valid
    valid = valid[valid.workload_hash.map(overview.tasks.dtype) == "float32"]
    found = []
    for device, hardware in overview.hardware.items():
        if not math.isfinite(hardware.peak_gflops):
            continue
        faster = valid[(valid.hardware_id == device) & (valid.gflops > _TOLERANCE * hardware.peak_gflops)]
        found.append(DevicePeak(device, hardware.name, hardware.peak_gflops, faster.workload_hash.nunique()))
    return found
