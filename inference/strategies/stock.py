"""Stock MetaSchedule's search: evolution with an XGBoost model that learns from the task's measurements.

It is the backend of ETO (`search.reuse=paper`), because TVM no longer contains ETO's Ansor. It is also a
contestant in benchmarks. Its candidates are measured like the candidates of every strategy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm.s_tir import meta_schedule as ms

from ...dataset.sampling.programs import EvolutionaryConfig, EvolutionarySampler
from ...models.architectures.gbdt import require_xgboost
from .base import Strategy, StrategySetting
from .sampled import SampledStrategy


@dataclass(frozen=True)
class StockConfig(EvolutionaryConfig):
    """Settings of MetaSchedule's evolution, with MetaSchedule's defaults."""

    name: str = "stock"
    population_size: int = 512
    generations: int = 4
    eps_greedy: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_shares("eps_greedy")


class StockStrategy(SampledStrategy):
    """MetaSchedule's evolutionary search with its own cost model, which is fitted after each round."""

    Config = StockConfig
    reuses = False

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy. Raises GbdtError without xgboost."""
        require_xgboost()
        scorer = ms.cost_model.XGBModel(num_tuning_cores=setting.threads)
        own = replace(setting, scorer=scorer, random_share=config.eps_greedy)
        return cls(EvolutionarySampler(own, config), setting)
