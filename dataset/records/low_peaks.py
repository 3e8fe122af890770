"""Devices of a dataset whose measured peak is below the rate of a measured program, which is impossible.

Other work on the machine lowers a peak, or the library that measures it is slow on the device. Features of
the hardware, roofline scores and efficiencies depend on the peak.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...compiler.hardware import DISTURBED, FROM_PROGRAM, Hardware
from ...wording import significant
from .schema import Record, TaskRow

TOLERANCE = 1.25
"""Rate of a program over the peak from which the peak counts as too low. The product that measures the peak
is some percent slower than the fastest programs."""


@dataclass(frozen=True)
class LowPeak:
    """A device whose peak is too low or doubtful."""

    hardware: Hardware
    fastest_gflops: float
    """Rate of its fastest float32 program in 10^9 operations a second."""

    def __str__(self) -> str:
        peak, fastest = significant(self.hardware.peak_gflops), significant(self.fastest_gflops)
        name = f"{self.hardware.name} ({self.hardware.hardware_id})"
        if self.is_exceeded:
            return (
                f"the peak of {name} is {peak} GFLOP/s, and a measured program reaches {fastest} GFLOP/s: "
                "features of the hardware and efficiencies are wrong by as much"
            )
        if self.hardware.details.get(FROM_PROGRAM):
            return (
                f"the peak of {name}, {peak} GFLOP/s, is the rate of its fastest program, because "
                "measurements of the peak gave less, and may be too low"
            )
        return f"the peak of {name}, {peak} GFLOP/s, was measured beside other work, and may be too low"

    @property
    def is_exceeded(self) -> bool:
        """Whether a program is faster than the peak allows."""
        return self.fastest_gflops > TOLERANCE * self.hardware.peak_gflops

    @property
    def raised(self) -> Hardware:
        """The device with the rate of its fastest program as its peak, and this fact in its details."""
        details = {**self.hardware.details, FROM_PROGRAM: True}
        return replace(self.hardware, peak_gflops=self.fastest_gflops, details=details)


REMEDY = "measure it again by foretune generate on the quiet machine, which keeps the higher peak"


def low_peaks(devices: Mapping[str, Hardware], fastest_gflops: Mapping[str, float]) -> list[LowPeak]:
    """Devices whose peak is doubtful.

    It is below the rate of their fastest program, or is this rate, or was measured beside other work.

    Both arguments are by `hardware_id`; rates are in 10^9 operations a second.
    """
    found = [LowPeak(device, fastest_gflops.get(name, 0.0)) for name, device in devices.items()]
    marks = {DISTURBED, FROM_PROGRAM}
    return [one for one in found if one.is_exceeded or marks & one.hardware.details.keys()]


def fastest_gflops(measured: Iterable[tuple[TaskRow, Iterable[Record]]]) -> dict[str, float]:
    """Rate of the fastest float32 program of each device, by its id, in 10^9 operations a second."""
    found: dict[str, float] = {}
    for row, records in measured:
        if not computes_in_float32(row.settings):
            continue
        for record in records:
            rate = row.flops / record.latency_s / 1e9
            found[record.hardware_id] = max(rate, found.get(record.hardware_id, 0.0))
    return found


def computes_in_float32(settings: str) -> bool:
    """Whether a task of these settings, a JSON object, is known to compute in float32, as the peak does."""
    return dtype_of(settings) == "float32"


def dtype_of(settings: str) -> str:
    """Data type of a task's first input, empty if its settings do not contain it."""
    fields = json.loads(settings)
    arguments = fields.get("arguments")
    return str(arguments[0]["dtype"] if arguments else fields.get("dtype", ""))
