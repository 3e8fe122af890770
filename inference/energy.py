"""What tuning costs in energy and carbon dioxide, and when it has paid for itself.

One-Shot Tuner section 7 estimates the same by the method of Lacoste et al. (arXiv:1910.09700): power times
time times what a kilowatt-hour emits. Power and emission are assumptions of the user, not measurements, and a
report says them with the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from .tune_result import EAGER, TUNED, UNTUNED, TuneResult

_JOULES_PER_KWH = 3.6e6


class ReportConfigError(UserError, ValueError):
    """A setting of the report cannot be."""


@dataclass(frozen=True)
class ReportConfig:
    """What a report assumes and compares with."""

    # What the machine draws while it tunes, in watts; null leaves the estimate out.
    power_w: float | None = 65.0
    # What a kilowatt-hour emits; 0.48 was the world's average of 2023 (Ember).
    co2_kg_per_kwh: float = 0.48
    # report.json of another run on the network, whose curve is drawn beside this one's.
    beside: Path | None = None

    def __post_init__(self) -> None:
        if self.power_w is not None and not 0 < self.power_w < math.inf:
            raise ReportConfigError(
                f"report.power_w={self.power_w}: watts over 0, or null for no estimate of energy"
            )
        if not 0 <= self.co2_kg_per_kwh < math.inf:
            raise ReportConfigError(
                f"report.co2_kg_per_kwh={self.co2_kg_per_kwh}: kilograms, 0 or more; 0.48 is a world average"
            )


@dataclass(frozen=True)
class EnergyEstimate:
    """An estimate for one run of the tuner."""

    kwh: float
    co2_kg: float
    peer: str | None
    """What the network would run as without tuning: the faster of the forms timed, None where none was."""
    runs_to_pay_back: float | None
    """Runs of the network after which it has used less time, and so energy, tuning included; None where it
    never does."""


def estimate_energy(result: TuneResult) -> EnergyEstimate | None:
    """None where the result holds no assumption about power."""
    if result.power_w is None or result.co2_kg_per_kwh is None:
        return None
    kwh = result.power_w * result.total_s / _JOULES_PER_KWH
    tuned = result.latency(TUNED)
    peers = [stats for name in (UNTUNED, EAGER) if (stats := result.latency(name)) is not None]
    peer = min(peers, key=lambda stats: stats.median_s, default=None)
    saved_s = peer.median_s - tuned.median_s if tuned is not None and peer is not None else 0.0
    return EnergyEstimate(
        kwh=kwh,
        co2_kg=kwh * result.co2_kg_per_kwh,
        peer=None if peer is None else peer.name,
        runs_to_pay_back=result.total_s / saved_s if saved_s > 0 else None,
    )
