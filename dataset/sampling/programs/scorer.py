"""Cost models that guide exploration during dataset generation.

A scorer is `xgboost`, as in One-Shot Tuner, `random`, or a pretrained checkpoint. Checkpoints belong to a
layer above this one: the setting `program_sampling.checkpoint_scorer` names the function that loads one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from tvm.s_tir import meta_schedule as ms

from ....compiler.task import Task
from ....errors import UserError
from ...hardware import Hardware
from .strategy_config import SamplingError

UNTRAINED = ("xgboost", "random")
"""Scorers other than checkpoints."""

CheckpointScorer = Callable[[str], Callable[[Task, Hardware], ms.CostModel]]
"""Loads a checkpoint by name or folder, and creates its scorers for tasks on a device; raises UserError."""

Scorer = Callable[[Task, Hardware | None], ms.CostModel]
"""Creates the scorer of a task; a pretrained scorer needs the device."""


def make_scorer(
    name: str, warm_up: int, checkpoint_scorer: str | None = None, seed: int | None = None
) -> Scorer:
    """Factory of the cost model that guides exploration: `xgboost`, `random` or a checkpoint by its name.

    XGBoost predicts at random until it has `warm_up` candidates. `checkpoint_scorer` names a
    `CheckpointScorer` as package.module:function. Raises SamplingError.
    """
    if name == "xgboost":
        try:
            import xgboost  # noqa: F401
        except ImportError as error:
            raise SamplingError(
                "program_sampling.scorer=xgboost needs xgboost: run `pip install 'foretune[xgboost]'`, or "
                "use program_sampling.scorer=random"
            ) from error
        return lambda task, hardware: ms.cost_model.XGBModel(num_tuning_cores=1, num_warmup_samples=warm_up)
    if name == "random":
        return lambda task, hardware: ms.cost_model.RandomModel(seed=seed)
    if checkpoint_scorer is None:
        raise SamplingError(
            f"program_sampling.scorer={name!r}: unknown; use xgboost or random, or set "
            "program_sampling.checkpoint_scorer to load it as a checkpoint"
        )
    try:
        return _checkpoint_scorer(name, _imported_loader(checkpoint_scorer)(name))
    except SamplingError:
        raise
    except UserError as error:
        raise SamplingError(
            f"program_sampling.scorer={name!r}: use xgboost, random or a checkpoint; {error}"
        ) from error


def starts_untrained(scorer: ms.CostModel) -> bool:
    """Whether a scorer rates programs at random until it has learned from the task."""
    return isinstance(scorer, ms.cost_model.XGBModel)


def _checkpoint_scorer(name: str, of_task: Callable[[Task, Hardware], ms.CostModel]) -> Scorer:
    def scorer(task: Task, hardware: Hardware | None) -> ms.CostModel:
        if hardware is None:
            raise SamplingError(
                f"program_sampling.scorer={name}: a checkpoint rates programs for a device, and none is "
                "known here; use xgboost or random"
            )
        return of_task(task, hardware)

    return scorer


def _imported_loader(name: str) -> CheckpointScorer:
    module, _, function = name.partition(":")
    try:
        return cast(CheckpointScorer, getattr(import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise SamplingError(
            f"program_sampling.checkpoint_scorer={name}: {error}; give package.module:function"
        ) from error
