"""Evolutionary search with the cost model: every candidate is replayed and rated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...dataset.sampling.programs import EvolutionConfig, evolutionary_sampler
from ..search.settings_checks import at_least, shares
from .base import Strategy, StrategyConfig, StrategySetting
from .sampled import SampledStrategy


@dataclass(frozen=True)
class EvolutionaryConfig(StrategyConfig):
    """Evolution of a round: One-Shot Tuner's genetic algorithm (section 4.2, Table 2)."""

    name: str = "evolutionary"
    population_size: int = 40
    generations: int = 2
    mutation_probability: float = 0.85

    def __post_init__(self) -> None:
        at_least(self, population_size=1, generations=0)
        shares(self, "mutation_probability")


class EvolutionaryStrategy(SampledStrategy):
    """Evolution: MetaSchedule's on a CPU, of rows of decisions on a GPU."""

    Config = EvolutionaryConfig

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        sampler = evolutionary_sampler(
            setting.task,
            setting.target,
            scorer=setting.scorer,
            config=EvolutionConfig(
                population_size=config.population_size,
                generations=config.generations,
                mutation_probability=config.mutation_probability,
                random_share=setting.random_share,
            ),
            **setting.of_sampler(),
        )
        return cls(sampler, setting)
