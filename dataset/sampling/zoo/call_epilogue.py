"""Element-wise steps that can be fused after an operator, from the calls of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ....compiler.operators import OperatorSettings
from ....compiler.operators.batch_norm import BATCH_NORMS
from ....compiler.operators.shared.torch_call import TorchCall


@dataclass(frozen=True)
class Call(TorchCall):
    """One operator call, tied to the calls before it."""

    inputs: tuple[int | None, ...]
    """For each tensor among the arguments, the number of the call that produced it; None for an input."""


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Tensors of nested lists, tuples and mappings, in order."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


_RESHAPES = {"aten.view", "aten._unsafe_view"}
_RELUS = {"aten.relu", "aten.relu_"}
_SILUS = {"aten.silu", "aten.silu_"}
_CLIPS = {"aten.hardtanh", "aten.hardtanh_", "aten.relu6", "aten.relu6_", "aten.clamp", "aten.clamp_"}
_ADDS = {"aten.add", "aten.add_"}


def with_epilogue(
    settings: OperatorSettings,
    number: int,
    calls: Sequence[Call],
    users: Mapping[int, Sequence[int]],
    fused: set[int],
) -> OperatorSettings:
    """Adds the element-wise steps after a call, as far as the operator has epilogues for them.

    As in Relax's fusion, an operator absorbs a step that alone uses its output. If two operators meet in an
    addition, the one that runs first absorbs it.

    Args:
        number: position of the operator's call in `calls`.
        users: for the number of each call, the calls that use its output.
        fused: numbers of calls that are part of an operator; newly absorbed calls are added.
    """
    best = settings
    steps = [] if settings.epilogue == "none" else [settings.epilogue]
    passed: list[int] = []
    while len(followers := users.get(number, ())) == 1 and followers[0] not in fused:
        maker, number = number, followers[0]
        follower = calls[number]
        passed.append(number)
        if follower.function in _RESHAPES:
            if settings.called_on_flattened:
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
    """Steps that a call adds to an epilogue: empty for a call that folds into them, None for others."""
    function = call.function
    if function in BATCH_NORMS and settings.folds_batch_norm and not {*steps} - {"bias"}:
        return [] if steps else ["bias"]
    if function in _RELUS:
        return ["relu"]
    if function in _CLIPS and tuple(call.args[1:3]) == (0.0, 6.0):
        return ["relu6"]
    if function in _SILUS:
        return ["silu"]
    if function == "aten.gelu":
        return ["gelu"]
    if function in _ADDS and call.output is not None:
        others = [x for x, made in zip(tensors_in(call.args), call.inputs, strict=True) if made != maker]
        if len(others) == 1 and others[0].shape == call.output.shape:
            return ["add"]
        if len(others) == 1 and not steps and isinstance(others[0], nn.Parameter):
            return ["bias"] if others[0].numel() in call.output.shape else None
    return None
