"""Simulated annealing with the cost model: chains of replayed and rated mutations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...dataset.sampling.programs import AnnealingConfig as ChainConfig
from ...dataset.sampling.programs import AnnealingSampler
from ..search.settings_checks import at_least
from .base import Strategy, StrategyConfig, StrategySetting
from .sampled import SampledStrategy


@dataclass(frozen=True)
class AnnealingConfig(StrategyConfig):
    """Chains of a round: One-Shot Tuner's simulated annealing (section 4.2, Table 2)."""

    name: str = "annealing"
    chains: int = 40
    steps: int = 2
    temperature: float = 1.0
    early_stop: int | None = None

    def __post_init__(self) -> None:
        at_least(self, chains=1, steps=1, temperature=0, early_stop=1)


class AnnealingStrategy(SampledStrategy):
    """Chains of MetaSchedule mutations, annealed side by side."""

    Config = AnnealingConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        sampler = AnnealingSampler(
            setting.task,
            setting.target,
            scorer=setting.scorer,
            config=ChainConfig(
                chains=config.chains,
                steps=config.steps,
                temperature=config.temperature,
                random_share=setting.random_share,
                early_stop=config.early_stop,
            ),
            **setting.of_sampler(),
        )
        return cls(sampler, setting)
