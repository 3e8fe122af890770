"""Parameterised operators: settings that build TIR tasks, by name in `OPERATOR_SETTINGS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Task, count_flops
from ..tvm_compat import as_task_module
from .capsule import CapsuleConv2d
from .convolution import Conv1d, Conv2d, Conv3d, DepthwiseConv2d, GroupConv2d, GroupConv3d
from .group_norm import GroupNorm
from .matmul import BatchMatmul, Dense
from .normalisation import BatchNorm, FrobeniusNorm, LayerNorm, Softmax
from .pooling import Pool2d
from .reduction import Reduction
from .settings import DTYPES, OperatorSettings, Pair, SettingsError, Triple
from .transposed import TransposedConv1d, TransposedConv2d
from .winograd import WinogradConv2d

__all__ = [
    "DTYPES",
    "OPERATOR_SETTINGS",
    "BatchMatmul",
    "BatchNorm",
    "CapsuleConv2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "Dense",
    "DepthwiseConv2d",
    "FrobeniusNorm",
    "GroupConv2d",
    "GroupConv3d",
    "GroupNorm",
    "LayerNorm",
    "OperatorSettings",
    "Pair",
    "Pool2d",
    "Reduction",
    "SettingsError",
    "Softmax",
    "TransposedConv1d",
    "TransposedConv2d",
    "Triple",
    "WinogradConv2d",
    "settings_class",
    "settings_from_dict",
    "to_task",
]

OPERATOR_SETTINGS: Mapping[str, type[OperatorSettings]] = {
    cls.operator: cls
    for cls in (
        Conv2d,
        DepthwiseConv2d,
        Dense,
        BatchMatmul,
        Conv1d,
        GroupConv2d,
        Conv3d,
        GroupConv3d,
        TransposedConv1d,
        TransposedConv2d,
        CapsuleConv2d,
        WinogradConv2d,
        Softmax,
        LayerNorm,
        BatchNorm,
        GroupNorm,
        FrobeniusNorm,
        Pool2d,
        Reduction,
    )
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
