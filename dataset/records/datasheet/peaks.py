"""Arithmetic peaks of the devices, and whether the rates of measured programs contradict them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .overview import Overview

_TOLERANCE = 1.05
"""Rate over the measured peak that is still credible, as both are measured."""


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
    def too_low(self) -> bool:
        """Whether the peak cannot be right.

        Other work disturbed its measurement, or PyTorch's matrix product, by which it is measured, is slow on
        the device.
        """
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
