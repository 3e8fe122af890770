"""Estimate of the energy and carbon dioxide of a tuning run, and of the runs that recover them.

The method is the one in One-Shot Tuner section 7, from Lacoste et al. (arXiv:1910.09700): power times time
times emission per kilowatt-hour. Power and emission are assumptions of the user, not measurements, and the
report states them together with the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..run.result import TUNED, TuneResult, comparable

_JOULES_PER_KWH = 3.6e6


class ReportConfigError(UserError, ValueError):
    """A setting of the report is out of range."""


@dataclass(frozen=True)
class ReportConfig:
    """Settings of a report; conf/tune.yaml documents them under `report`."""

    power_w: float | None = 65.0
    co2_kg_per_kwh: float = 0.48
    beside: Path | None = None

    def __post_init__(self) -> None:
        if self.power_w is not None and not 0 < self.power_w < math.inf:
            raise ReportConfigError(
                f"report.power_w={self.power_w}: must be above 0 watts, or null for no estimate of energy"
            )
        if not 0 <= self.co2_kg_per_kwh < math.inf:
            raise ReportConfigError(
                f"report.co2_kg_per_kwh={self.co2_kg_per_kwh}: must be 0 kg or more; 0.48 is a world average"
            )


@dataclass(frozen=True)
class PretrainingEstimate:
    """Estimate for the models' data and training, which all runs share."""

    seconds: float
    kwh: float
    co2_kg: float


@dataclass(frozen=True)
class EnergyEstimate:
    """Estimate for one tuning run."""

    kwh: float
    co2_kg: float
    peer: str | None
    """Name of the fastest contestant without tuning; None if no such contestant has an undisturbed timing."""
    runs_to_pay_back: float | None
    """Runs of the network after which the saved time, and so the saved energy, exceeds the cost of tuning;
    None if the tuned network is not faster."""
    pretraining: PretrainingEstimate | None
    """Data and training of the models; None if unknown."""


def estimate_energy(result: TuneResult) -> EnergyEstimate | None:
    """Estimates the energy of a run; None without an assumption about power in the result."""
    if result.power_w is None or result.co2_kg_per_kwh is None:
        return None
    kwh = result.power_w * result.total_s / _JOULES_PER_KWH
    once = result.pretraining_s
    once_kwh = result.power_w * (once or 0.0) / _JOULES_PER_KWH
    tuned_s = result.median_s(TUNED)
    peers = {
        one.name: one.median_s
        for one in result.contestants
        if one.name != TUNED and comparable(one) and one.median_s is not None
    }
    peer = min(peers, key=lambda name: peers[name], default=None)
    saved_s = peers[peer] - tuned_s if tuned_s is not None and peer is not None else 0.0
    return EnergyEstimate(
        kwh=kwh,
        co2_kg=kwh * result.co2_kg_per_kwh,
        peer=peer,
        runs_to_pay_back=result.total_s / saved_s if saved_s > 0 else None,
        pretraining=PretrainingEstimate(once, once_kwh, once_kwh * result.co2_kg_per_kwh) if once else None,
    )
