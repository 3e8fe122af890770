"""Settings drawn uniformly: what One-Shot Tuner (section 6.3.1) compares its prior with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..operators import (
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    OperatorSettings,
    Pool2d,
    SettingsError,
    TransposedConv1d,
    TransposedConv2d,
    settings_class,
)
from ..operators.window import SlidingWindow

LARGEST: Mapping[str, int] = {
    "rows": 512,
    "in_features": 4096,
    "out_features": 4096,
    "inner": 512,
    "columns": 512,
    "channels": 1024,
    "in_channels": 1024,
    "out_channels": 1024,
    "height": 224,
    "width": 224,
}
"""Largest value of each setting that is not a window's; the smallest is 1."""

LARGEST_SIDE = {1: 4096, 2: 224, 3: 32}
"""Largest extent of a window's input, by its number of axes."""

LARGEST_KERNEL, LARGEST_STRIDE, LARGEST_DILATION, LARGEST_GROUPS = 7, 2, 2, 32
LARGEST_MATMUL_BATCH = 32
CAPSULE_SIZES = (2, 3, 4)


def sample_uniform(operator: str, rng: np.random.Generator) -> OperatorSettings:
    """Every setting uniform over its range, of batch 1; a window's input has equal sides and fits it."""
    cls = settings_class(operator)
    while True:
        values: dict[str, Any] = {"batch": 1, **_window(cls, rng)}
        for field in fields(cls):
            if field.name not in values and field.name in LARGEST:
                values[field.name] = _up_to(LARGEST[field.name], rng)
        values.update(_choices(cls, rng))
        try:
            return cls.from_dict({f.name: values[f.name] for f in fields(cls) if f.name in values})
        except SettingsError:  # groups that divide no channels, say
            continue


def _up_to(most: int, rng: np.random.Generator) -> int:
    return int(rng.integers(1, most, endpoint=True))


def _window(cls: type[OperatorSettings], rng: np.random.Generator) -> dict[str, Any]:
    if not issubclass(cls, SlidingWindow):
        return {}
    kernel, dilation = _up_to(LARGEST_KERNEL, rng), 1
    stride = _up_to(LARGEST_STRIDE, rng)
    most_padding = kernel // 2 if cls is Pool2d else kernel - 1
    if "dilation" in cls.window_fields:
        dilation = _up_to(LARGEST_DILATION, rng)
    side = max(_up_to(LARGEST_SIDE[len(cls.axes)], rng), dilation * (kernel - 1) + 1)
    return {
        "kernel": kernel,
        "stride": stride,
        "padding": int(rng.integers(0, most_padding, endpoint=True)),
        "dilation": dilation,
        **dict.fromkeys(cls.axes, side),
    }


def _choices(cls: type[OperatorSettings], rng: np.random.Generator) -> dict[str, Any]:
    """Settings that are one of a few, or follow from others."""
    values: dict[str, Any] = {"epilogue": str(rng.choice(cls.epilogues))}
    names = {field.name for field in fields(cls)}
    if cls.operator == "batch_matmul":
        values |= {"batch": _up_to(LARGEST_MATMUL_BATCH, rng), "transpose_right": bool(rng.integers(2))}
    if cls in (GroupConv2d, GroupConv3d):
        groups = int(rng.integers(2, LARGEST_GROUPS, endpoint=True))
        most = LARGEST["in_channels"] // groups
        channels = {name: groups * _up_to(most, rng) for name in ("in_channels", "out_channels")}
        values |= {"groups": groups, **channels}
    if cls is GroupNorm:
        groups = _up_to(LARGEST_GROUPS, rng)
        values |= {"groups": groups, "channels": groups * _up_to(LARGEST["channels"] // groups, rng)}
    if cls in (TransposedConv1d, TransposedConv2d):
        values["output_padding"] = int(rng.integers(2))
    if "capsule_size" in names:
        most = LARGEST["in_channels"] // max(CAPSULE_SIZES) ** 2
        channels = {name: _up_to(most, rng) for name in ("in_channels", "out_channels")}
        values |= {"capsule_size": int(rng.choice(CAPSULE_SIZES)), **channels}
    if "mode" in names:
        values["mode"] = str(rng.choice(cls.modes))  # type: ignore[attr-defined]
    if "axis" in names:
        values["axis"] = int(rng.integers(2))
    return values
