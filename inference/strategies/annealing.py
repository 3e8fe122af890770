"""Simulated annealing with the cost model: chains of replayed and rated mutations."""

from __future__ import annotations

from typing import Any

from ...dataset.sampling.programs import AnnealingConfig, AnnealingSampler
from .base import Strategy, StrategySetting
from .sampled import SampledStrategy


class AnnealingStrategy(SampledStrategy):
    """Chains of MetaSchedule mutations, annealed side by side (One-Shot Tuner, section 4.2)."""

    Config = AnnealingConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(AnnealingSampler(setting, config), setting)
