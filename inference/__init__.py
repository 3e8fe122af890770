"""Inference: pretrained cost models inside stock TVM's search, and tuning of whole networks.

There are three ways to use it, from the smallest to the largest part of Foretune:

- `PretrainedCostModel` is a cost model for `ms.tune_tir`, `ms.relax_integration.tune_relax` and
  `ms.tune_tasks`, with MetaSchedule's own search;
- `OneShotStrategy` adds Foretune's search to stock tuning;
- `tune_network` and `tune_tasks`, and the command `foretune tune`, search in parallel processes, use
  Foretune's measurement, and fill a database from which stock TVM compiles.

The search has four interfaces for extensions: `strategies.base.Strategy`, `starts.base.StartSource`,
`spaces.base.DesignSpace` and `planners.base.TaskPlanner`.

`this_machine` is the target of this machine's CPU or GPU. `load` runs an exported network with the threads
that it was tuned for.

A process that compiles from such a database calls `improve_code` to generate the measured code. If records of
the database use templates of Foretune, the process also calls `register_intrinsics` with the text of these
records. `prepare_builder` does both for the workers of MetaSchedule's builder, and lets them start sooner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # types for users; `MODULES` below does the imports
    from ..compiler.codegen.passes import improve_code as improve_code
    from ..compiler.templates.cpu.intrinsics.registry import register_intrinsics as register_intrinsics
    from ..compiler.tvm_compat.targets import this_machine as this_machine
    from .api import tune_network as tune_network
    from .api import tune_tasks as tune_tasks
    from .bundle.exporting import export_bundle as export_bundle
    from .bundle.format import read_bundle as read_bundle
    from .bundle.importing import import_bundle as import_bundle
    from .deploy.load import load as load
    from .familyseer.family_cost_model import FamilyCostModel as FamilyCostModel
    from .familyseer.task_scheduler import FamilyTaskScheduler as FamilyTaskScheduler
    from .plugins.builder import prepare_builder as prepare_builder
    from .plugins.search_strategy import OneShotStrategy as OneShotStrategy
    from .run.result import TaskResult as TaskResult
    from .run.result import TuneResult as TuneResult
    from .search.config import OneShotConfig as OneShotConfig
    from .search.config import StopConfig as StopConfig
    from .search.cost_model import PretrainedCostModel as PretrainedCostModel

MODULES = {
    "FamilyCostModel": "familyseer.family_cost_model",
    "FamilyTaskScheduler": "familyseer.task_scheduler",
    "OneShotConfig": "search.config",
    "OneShotStrategy": "plugins.search_strategy",
    "PretrainedCostModel": "search.cost_model",
    "StopConfig": "search.config",
    "TaskResult": "run.result",
    "TuneResult": "run.result",
    "export_bundle": "bundle.exporting",
    "import_bundle": "bundle.importing",
    "improve_code": ".compiler.codegen.passes",
    "load": "deploy.load",
    "prepare_builder": "plugins.builder",
    "read_bundle": "bundle.format",
    "register_intrinsics": ".compiler.templates.cpu.intrinsics.registry",
    "this_machine": ".compiler.tvm_compat.targets",
    "tune_network": "api",
    "tune_tasks": "api",
}
"""Module of each public name, relative to this package; it is imported when the name is first used."""

__all__ = [*MODULES]


def __getattr__(name: str) -> Any:
    """Imports on first use, so that a script with only the cost model needs no Hydra, reports or plots."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
