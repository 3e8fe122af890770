"""Evolutionary search with the cost model: replays and rates every candidate."""

from __future__ import annotations

from typing import Any

from ...dataset.sampling.programs import EvolutionaryConfig, evolutionary_sampler
from .base import Strategy, StrategySetting
from .sampled import SampledStrategy


class EvolutionaryStrategy(SampledStrategy):
    """Evolution by MetaSchedule on a CPU, over rows of decisions on a GPU (One-Shot Tuner, section 4.2)."""

    Config = EvolutionaryConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(evolutionary_sampler(setting, config), setting)
