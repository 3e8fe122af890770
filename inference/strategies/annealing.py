"""Simulated annealing with the cost model: chains of mutations, each replayed and rated."""

from __future__ import annotations

from typing import Any

from ...dataset.sampling.programs import AnnealingConfig, AnnealingSampler
from .base import Strategy, StrategySetting
from .sampled import SampledStrategy


class AnnealingStrategy(SampledStrategy):
    """Parallel annealing chains of MetaSchedule mutations (One-Shot Tuner, section 4.2)."""

    Config = AnnealingConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(AnnealingSampler(setting, config), setting)
