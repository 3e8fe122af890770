"""Inference: a checkpoint inside the search of a stock TVM, and the tuning of whole networks with it.

Three ways to use it, from the least to the most of it:

- `PretrainedCostModel`: a cost model that `ms.tune_tir`, `ms.relax_integration.tune_relax` and
  `ms.tune_tasks` take as it is, with MetaSchedule's own search;
- `OneShotStrategy` beside it: one search and one validation a task, by evolution or simulated annealing;
- `tune_network` and `tune_tasks`, and the command `foretune-tune`: searches side by side, measured by
  processes that live on, with a database that stock TVM compiles from.

A process that compiles from such a database calls `vectorise_math` for what foretune's own have: fast
exponentials, hyperbolic tangents and error functions on a CPU. `prepare_builder` does it for the workers of
MetaSchedule's builder, and has them start sooner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..dataset.vector_math import vectorise_math
    from .api import tune_network, tune_tasks
    from .builder import prepare_builder
    from .plugin import PretrainedCostModel
    from .search_config import OneShotConfig, StopConfig
    from .strategy import OneShotStrategy
    from .tune_result import TaskResult, TuneResult

__all__ = [
    "OneShotConfig",
    "OneShotStrategy",
    "PretrainedCostModel",
    "StopConfig",
    "TaskResult",
    "TuneResult",
    "prepare_builder",
    "tune_network",
    "tune_tasks",
    "vectorise_math",
]

_HOMES = {
    "OneShotConfig": "search_config",
    "OneShotStrategy": "strategy",
    "PretrainedCostModel": "plugin",
    "StopConfig": "search_config",
    "TaskResult": "tune_result",
    "TuneResult": "tune_result",
    "prepare_builder": "builder",
    "tune_network": "api",
    "tune_tasks": "api",
    "vectorise_math": ".dataset.vector_math",
}


def __getattr__(name: str) -> Any:
    """Imports on first use: a script with the cost model alone does without Hydra, reports and plots."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
