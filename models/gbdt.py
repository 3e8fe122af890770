"""Gradient-boosted trees over stores: the model that AutoTVM, Ansor and MetaSchedule retrain online.

Fitted once on many tasks it is the XGBoost baseline of One-Shot Tuner section 6.3.4. It has no checkpoint: it
is there to compare with, and takes seconds to fit. Needs the extra `foretune[xgboost]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.features.table import FeatureTable
from .target import TargetConfig


@dataclass(frozen=True)
class GbdtConfig:
    """Settings of the trees; the defaults are those of MetaSchedule's XGBoost model where it has them."""

    rounds: int = 300
    max_depth: int = 10
    learning_rate: float = 0.2
    min_child_weight: float = 0.0
    gamma: float = 0.001
    threads: int = 1
    seed: int = 43


@dataclass(frozen=True)
class GbdtPredictor:
    """A fitted model: the output of a candidate is the sum over its stores."""

    booster: Any  # xgboost.Booster
    target: TargetConfig

    @classmethod
    def fit(
        cls,
        table: FeatureTable,
        rows: NDArray[np.int64],
        score: NDArray[np.float64],
        target: TargetConfig,
        config: GbdtConfig | None = None,
    ) -> GbdtPredictor:
        """Fits the chosen rows of a table to their scores [len(rows)] by squared error.

        Raises:
          ModuleNotFoundError: xgboost is not installed.
        """
        import xgboost

        config = config or GbdtConfig()
        inputs, owner = _store_rows(table, rows)
        wanted = target.encode(score)

        def squared_error(output: NDArray[np.float32], _: Any) -> tuple[NDArray[Any], NDArray[Any]]:
            # d/do_s of (sum of o over the candidate's stores - y)^2 / 2 is the same for each of its stores.
            residual = np.bincount(owner, output, len(rows)) - wanted
            return residual[owner].astype(np.float32), np.ones(len(output), dtype=np.float32)

        booster = xgboost.train(
            {
                "max_depth": config.max_depth,
                "eta": config.learning_rate,
                "min_child_weight": config.min_child_weight,
                "gamma": config.gamma,
                "nthread": config.threads,
                "seed": config.seed,
                "base_score": 0.0,
                "tree_method": "hist",
            },
            xgboost.DMatrix(inputs),
            num_boost_round=config.rounds,
            obj=squared_error,
        )
        return cls(booster, target)

    def predict_table(self, table: FeatureTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores [len(rows)] of some rows of a table."""
        import xgboost

        inputs, owner = _store_rows(table, rows)
        output = self.booster.predict(xgboost.DMatrix(inputs), output_margin=True)
        return self.target.decode(np.bincount(owner, output, len(rows)).astype(np.float32))


def _store_rows(
    table: FeatureTable, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Store, task and hardware features [total, dim], one row a store, and which of `rows` owns each."""
    lengths = np.diff(table.store_offsets)[rows]
    owner = np.repeat(np.arange(len(rows)), lengths)
    first = np.repeat(table.store_offsets[rows] - np.cumsum(lengths) + lengths, lengths)
    stores = table.stores[first + np.arange(lengths.sum())]
    return np.hstack([stores, table.task[rows][owner], table.hardware[rows][owner]]), owner
