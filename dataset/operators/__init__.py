"""Parameterised operators: settings that build TIR tasks, by name in `OPERATOR_SETTINGS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Task, count_flops
from ..tvm_compat import as_task_module
from .convolution import Conv2d, DepthwiseConv2d
from .matmul import BatchMatmul, Dense
from .settings import DTYPES, OperatorSettings, Pair, SettingsError

__all__ = [
    "DTYPES",
    "OPERATOR_SETTINGS",
    "BatchMatmul",
    "Conv2d",
    "Dense",
    "DepthwiseConv2d",
    "OperatorSettings",
    "Pair",
    "SettingsError",
    "settings_class",
    "settings_from_dict",
    "to_task",
]

OPERATOR_SETTINGS: Mapping[str, type[OperatorSettings]] = {
    cls.operator: cls for cls in (Conv2d, DepthwiseConv2d, Dense, BatchMatmul)
}


def settings_class(operator: str) -> type[OperatorSettings]:
    """The settings of an operator type; raises SettingsError for an unknown one."""
    try:
        return OPERATOR_SETTINGS[operator]
    except KeyError:
        raise SettingsError(f"operator={operator!r}: use one of {', '.join(OPERATOR_SETTINGS)}") from None


def settings_from_dict(operator: str, values: Mapping[str, Any]) -> OperatorSettings:
    """Settings of the named operator from JSON-able values; raises SettingsError."""
    return settings_class(operator).from_dict(values)


def to_task(settings: OperatorSettings) -> Task:
    """The settings as a task that MetaSchedule can tune, of weight 1."""
    mod = as_task_module(settings.prim_func())
    suffix = "" if settings.epilogue == "none" else f"_{settings.epilogue}"
    return Task(
        name=f"{settings.operator}_{settings.label}{suffix}",
        mod=mod,
        weight=1,
        source="operator",
        operator=settings.operator,
        settings=settings.to_dict(),
        flops=count_flops(mod),
    )
