"""Gradient-boosted trees over stores: the model that AutoTVM, Ansor and MetaSchedule retrain online.

Fitted once on many tasks it is the XGBoost baseline of One-Shot Tuner section 6.3.4. Its defaults are those
of MetaSchedule's `XGBModel`: the same objective, weights, settings and stopping rule, which a test compares
with TVM's own. It is a baseline without checkpoints; `trees.TreesCostModel` has checkpoints. Needs the extra
`foretune[xgboost]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...dataset.features.table import FeatureTable
from ...errors import UserError
from ..scaling.target import TargetConfig

CONTEXTS = ("task", "hardware")
STOPS = ("training", "validation")


class GbdtError(UserError, ValueError):
    """A setting of the trees is out of range, or xgboost is not installed."""


@dataclass(frozen=True)
class GbdtConfig:
    """Settings of the trees; the defaults are those of MetaSchedule's XGBoost model.

    `context` adds fields of the feature table to each store: "task" is the task vector with the draft vector,
    "hardware" the hardware vector. TVM's model has neither, as TVM fits it to one device and few tasks.
    `weighted` weights each candidate by its target, so that slow programs hardly count. `base_score` is the
    output of a store before the first tree. Boosting ends after `rounds`, or `patience` rounds after the
    lowest error on the "training" rows (TVM) or the "validation" rows. With `stop_on="validation"` the model
    has the trees up to the best round. `threads` is by default torch's number and has no effect on the trees.
    """

    context: list[str] = field(default_factory=list)
    rounds: int = 10_000
    patience: int = 50
    stop_on: str = "training"
    weighted: bool = True
    max_depth: int = 10
    learning_rate: float = 0.2
    min_child_weight: float = 0.0
    gamma: float = 0.001
    base_score: float = 0.5
    tree_method: str = "auto"
    threads: int | None = None
    seed: int = 43

    def __post_init__(self) -> None:
        unknown = sorted(set(self.context) - set(CONTEXTS))
        if unknown:
            raise GbdtError(
                f"context={self.context}: {unknown[0]!r} is unknown, choose from {', '.join(CONTEXTS)}"
            )
        if self.stop_on not in STOPS:
            raise GbdtError(f"stop_on={self.stop_on!r} is unknown: choose one of {', '.join(STOPS)}")
        if self.rounds < 0 or self.patience < 1 or self.max_depth < 1 or not self.learning_rate > 0:
            raise GbdtError(
                f"rounds={self.rounds}, patience={self.patience}, max_depth={self.max_depth}, learning_rate="
                f"{self.learning_rate}: set rounds to 0 or more, patience and max_depth to 1 or more, and "
                "learning_rate above 0"
            )

    def of_xgboost(self) -> dict[str, Any]:
        """Parameters of `xgboost.train`."""
        return {
            "max_depth": self.max_depth,
            "eta": self.learning_rate,
            "min_child_weight": self.min_child_weight,
            "gamma": self.gamma,
            "nthread": self.threads or torch.get_num_threads(),
            "seed": self.seed,
            "base_score": self.base_score,
            "tree_method": self.tree_method,
            "disable_default_eval_metric": True,
        }


@dataclass(frozen=True)
class GbdtPredictor:
    """Fitted trees; the output of a candidate is the sum of the outputs of its stores."""

    booster: Any  # xgboost.Booster
    target: TargetConfig
    config: GbdtConfig
    rounds: int  # number of trees used for prediction

    @classmethod
    def fit(
        cls,
        table: FeatureTable,
        rows: NDArray[np.int64],
        score: NDArray[np.float64],
        target: TargetConfig | None = None,
        config: GbdtConfig | None = None,
        validation: NDArray[np.int64] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> GbdtPredictor:
        """Fits trees to the scores of some rows of a table by squared error.

        Args:
          table: raw features.
          rows: rows to fit, int64 [n].
          score: scores of all rows of the table, in [0, 1].
          target: training target; TVM's is the score.
          config: settings.
          validation: rows whose error stops the boosting, with `stop_on="validation"`.
          progress: called with the number of rounds so far.

        Raises:
          GbdtError: xgboost is not installed, or `stop_on="validation"` has no validation rows.
        """
        xgboost = require_xgboost()
        target, config = target or TargetConfig(), config or GbdtConfig()
        packs = {"training": _Pack.of(table, rows, target.encode(score[rows]), config)}
        if config.stop_on == "validation":
            if validation is None or len(validation) == 0:
                raise GbdtError(
                    "stop_on=validation needs validation rows: raise split.validation, or set "
                    "stop_on=training"
                )
            packs["validation"] = _Pack.of(table, validation, target.encode(score[validation]), config)
        watched = packs[config.stop_on]
        fitted = packs["training"]
        callbacks = [boosting_progress(progress)] if progress else []
        booster = xgboost.train(
            config.of_xgboost(),
            fitted.matrix,
            num_boost_round=config.rounds,
            obj=lambda output, _: fitted.gradient(output, config.weighted),
            custom_metric=lambda output, _: ("p-rmse", watched.rmse(output)),
            evals=[(watched.matrix, config.stop_on)],
            early_stopping_rounds=config.patience,
            verbose_eval=False,
            callbacks=callbacks,
        )
        # XGBoost keeps the trees after the best round, and TVM predicts with them.
        best = config.stop_on == "validation" and config.rounds > 0
        return cls(
            booster,
            target,
            config,
            booster.best_iteration + 1 if best else booster.num_boosted_rounds(),
        )

    def predict_table(self, table: FeatureTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores [len(rows)] of some rows of a table."""
        inputs, owner = _store_rows(table, rows, self.config.context)
        output = self.booster.predict(
            require_xgboost().DMatrix(inputs), output_margin=True, iteration_range=(0, self.rounds)
        )
        return self.target.decode(np.bincount(owner, output, len(rows)).astype(np.float32))


@dataclass(frozen=True)
class _Pack:
    """Stores as rows of a matrix, with the candidate of each store and the target of that candidate."""

    matrix: Any  # xgboost.DMatrix
    owner: NDArray[np.int64]  # [stores]
    target: NDArray[np.float32]  # [stores]

    @classmethod
    def of(
        cls,
        table: FeatureTable,
        rows: NDArray[np.int64],
        target: NDArray[np.float32],
        config: GbdtConfig,
    ) -> _Pack:
        inputs, owner = _store_rows(table, rows, config.context)
        matrix = require_xgboost().DMatrix(inputs, label=target[owner])
        if config.weighted:  # XGBoost uses them for the bins of the features
            matrix.set_weight(target[owner])
        return cls(matrix, owner, target[owner])

    def residual(self, output: NDArray[np.float32]) -> NDArray[np.float64]:
        """Error of each store's candidate: the sum of the outputs of its stores, minus the target."""
        sums = np.bincount(self.owner, weights=output).astype(np.float64)
        return sums[self.owner] - self.target

    def gradient(self, output: NDArray[np.float32], weighted: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """First and second derivative of the loss by the output of each store.

        d/do_s of w (sum of o over the candidate's stores - y)^2 / 2 is equal for all stores of a candidate.
        The second derivative is taken as w, as if the outputs of the other stores were constant.
        """
        weight = self.target if weighted else np.ones_like(self.target)
        return (self.residual(output) * weight).astype(np.float32), weight

    def rmse(self, output: NDArray[np.float32]) -> float:
        """Root mean square error over stores, so that a candidate counts once per store, as in TVM."""
        return float(np.sqrt(np.mean(np.square(self.residual(output)))))


def boosting_progress(progress: Callable[[int], None]) -> Any:
    """Callback of XGBoost that reports the number of rounds; its base class is imported here."""

    class BoostingProgress(require_xgboost().callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            progress(epoch + 1)
            return False

    return BoostingProgress()


def _store_rows(
    table: FeatureTable, rows: NDArray[np.int64], context: Sequence[str] = CONTEXTS
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features [total, dim] of each store with its context, and the index in `rows` of its candidate."""
    lengths = np.diff(table.store_offsets)[rows]
    owner = np.repeat(np.arange(len(rows)), lengths)
    first = np.repeat(table.store_offsets[rows] - np.cumsum(lengths) + lengths, lengths)
    stores = table.stores[first + np.arange(lengths.sum())]
    return np.hstack([stores, *(getattr(table, name)[rows][owner] for name in context)]), owner


def require_xgboost() -> Any:
    """Module `xgboost`; raises GbdtError if it is not installed."""
    try:
        import xgboost
    except ModuleNotFoundError as error:
        raise GbdtError(
            "the trees need xgboost: install it with pip install 'foretune[xgboost]', or leave them out"
        ) from error
    return xgboost
