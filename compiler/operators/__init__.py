"""Parameterised operators: each module defines one, whose settings build TIR tasks.

Importing the package registers the operators of all its modules. Settings classes are attributes of the
package too, as in `from foretune.compiler.operators import Conv2d`.
"""

from __future__ import annotations

from typing import Any

from ..task import Task, count_flops
from ..tvm_compat import as_task_module
from . import convolutions
from .registry import OPERATOR_SETTINGS, discover, register, settings_class, settings_from_dict
from .settings import DTYPES, NOT_CRAWLED, OperatorSettings, Pair, Triple
from .shared.checks import SettingsError

__all__ = [
    "DTYPES",
    "NOT_CRAWLED",
    "OPERATOR_SETTINGS",
    "OperatorSettings",
    "Pair",
    "SettingsError",
    "Triple",
    "register",
    "settings_class",
    "settings_from_dict",
    "to_task",
]

discover(__name__, __path__)
discover(convolutions.__name__, convolutions.__path__)


def to_task(settings: OperatorSettings) -> Task:
    """The settings as a task that MetaSchedule can tune, of weight 1."""
    mod = as_task_module(settings.prim_func())
    suffix = "" if settings.epilogue == "none" else f"_{settings.epilogue}"
    suffix += "_prepack" if settings.prepack else ""
    return Task(
        name=f"{settings.operator}_{settings.label}{suffix}",
        mod=mod,
        weight=1,
        source="operator",
        operator=settings.operator,
        settings=settings.to_dict(),
        flops=count_flops(mod),
    )


def __getattr__(name: str) -> Any:
    """Settings classes by class name."""
    for cls in OPERATOR_SETTINGS.values():
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
