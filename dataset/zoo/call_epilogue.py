"""Element-wise steps that can be fused behind an operator, from the calls of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..operators import (
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    GroupConv2d,
    GroupConv3d,
    OperatorSettings,
    TransposedConv1d,
    TransposedConv2d,
)
from .call_settings import BATCH_NORMS, aten


@dataclass(frozen=True)
class Call:
    """One operator call."""

    function: Any
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    inputs: tuple[int | None, ...]
    """Of each tensor among the arguments, the number of the call that made it; None for a given one."""
    output: torch.Tensor | None
    """The first tensor that it returns."""


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Tensors of nested lists, tuples and mappings, in order."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


_FOLDING = (
    Conv1d,
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    GroupConv2d,
    GroupConv3d,
    TransposedConv1d,
    TransposedConv2d,
)
"""Operators whose weight takes in the scale of a batch norm behind it, which leaves a bias."""

_RESHAPES = {aten.view, aten._unsafe_view}
_RELUS = {aten.relu, aten.relu_}
_SILUS = {aten.silu, aten.silu_}
_CLIPS = {aten.hardtanh, aten.hardtanh_, aten.relu6, aten.relu6_, aten.clamp, aten.clamp_}
_ADDS = {aten.add, aten.add_}


def with_epilogue(
    settings: OperatorSettings,
    number: int,
    calls: Sequence[Call],
    users: Mapping[int, Sequence[int]],
    fused: set[int],
) -> OperatorSettings:
    """Adds the element-wise steps behind a call as far as its epilogues go, and marks them in `fused`.

    As in Relax's fusion, an operator takes a step that alone uses its output, and of two operators that meet
    in an addition the one that runs first takes it.
    """
    best = settings
    steps = [] if settings.epilogue == "none" else [settings.epilogue]
    passed: list[int] = []
    while len(followers := users.get(number, ())) == 1 and followers[0] not in fused:
        maker, number = number, followers[0]
        follower = calls[number]
        passed.append(number)
        if follower.function in _RESHAPES:
            if isinstance(settings, Dense):  # a linear layer of rows is one of a sequence, seen flat
                continue
            break
        step = _step(follower, maker, settings, steps)
        if step is None:
            break
        steps += step
        epilogue = "_".join(steps) or "none"
        if epilogue not in settings.epilogues:
            break
        best = replace(settings, epilogue=epilogue)
        fused.update(passed)
    return best


def _step(call: Call, maker: int, settings: OperatorSettings, steps: Sequence[str]) -> list[str] | None:
    """Steps that a call adds to an epilogue, none for what folds into them; None where it is no step."""
    function = call.function
    if function in BATCH_NORMS and isinstance(settings, _FOLDING) and not {*steps} - {"bias"}:
        return [] if steps else ["bias"]
    if function in _RELUS:
        return ["relu"]
    if function in _CLIPS and tuple(call.args[1:3]) == (0.0, 6.0):
        return ["relu6"]
    if function in _SILUS:
        return ["silu"]
    if function is aten.gelu:
        return ["gelu"]
    if function in _ADDS and call.output is not None:
        others = [x for x, made in zip(tensors_in(call.args), call.inputs, strict=True) if made != maker]
        if len(others) == 1 and others[0].shape == call.output.shape:
            return ["add"]
        if len(others) == 1 and not steps and isinstance(others[0], nn.Parameter):
            return ["bias"] if others[0].numel() in call.output.shape else None
    return None
