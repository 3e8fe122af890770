"""Stock MetaSchedule's search: its evolution, with an XGBoost model that learns from the task's measurements.

It is the backend of ETO (`search.reuse=paper`), whose Ansor is gone from TVM, and a contestant in benchmarks.
Candidates are measured as those of every strategy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import meta_schedule as ms

from ...dataset.sampling.programs import EvolutionarySampler, EvolutionConfig
from ...models.architectures.gbdt import require_xgboost
from ..search.settings_checks import at_least, shares
from .base import Strategy, StrategyConfig, StrategySetting
from .sampled import SampledStrategy


@dataclass(frozen=True)
class StockConfig(StrategyConfig):
    """Settings of MetaSchedule's evolution; the defaults are MetaSchedule's own."""

    name: str = "stock"
    population_size: int = 512
    generations: int = 4
    mutation_probability: float = 0.85
    eps_greedy: float = 0.05

    def __post_init__(self) -> None:
        at_least(self, population_size=1, generations=0)
        shares(self, "mutation_probability", "eps_greedy")


class StockStrategy(SampledStrategy):
    """MetaSchedule's evolutionary search with its own cost model, which is fitted after each round."""

    Config = StockConfig
    reuses = False

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy; raises GbdtError without xgboost."""
        require_xgboost()
        scorer = ms.cost_model.XGBModel(num_tuning_cores=setting.threads)
        sampler = EvolutionarySampler(
            setting.task,
            setting.target,
            scorer=scorer,
            config=EvolutionConfig(
                population_size=config.population_size,
                generations=config.generations,
                mutation_probability=config.mutation_probability,
                random_share=config.eps_greedy,
            ),
            **setting.of_sampler(),
        )
        return cls(sampler, setting)
