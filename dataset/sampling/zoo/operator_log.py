"""Log of the operators that a PyTorch network calls, with the steps that can be fused after each.

A dispatch mode records the calls of one inference on the `meta` device, whose tensors have a shape and no
memory. The tensors link the calls: a convolution, batch norm and ReLU in a row become one operator with the
epilogue `bias_relu`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ....compiler.operators import OPERATOR_SETTINGS, OperatorSettings, SettingsError
from ....compiler.operators.batch_norm import BATCH_NORMS
from ....compiler.operators.shared.torch_call import NotDescribedError, TorchCall

NetworkFactory: TypeAlias = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
"""Builds a network and the arguments of its call, of batch 1, under `torch.device("meta")`."""


@dataclass(frozen=True)
class Operators:
    """Operator calls of one inference of a network."""

    calls: Counter[OperatorSettings]
    """Number of calls of each operator with its epilogue."""
    skipped: Counter[str]
    """Number of operator calls that settings cannot describe, by reason."""


def log_operators(factory: NetworkFactory) -> Operators:
    """Builds a network on the meta device, runs it once in evaluation mode and reads its operators."""
    with torch.device("meta"), torch.no_grad():
        network, inputs = factory()
        with _CallLog() as log:
            network.eval()(*inputs)
    return _read(log.calls)


class _CallLog(TorchDispatchMode):
    """Keeps every call with its tensors, so that each tensor has a unique `id`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._makers: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        function = str(func.overloadpacket)
        inputs = tuple(self._makers.get(id(tensor)) for tensor in tensors_in((args, options)))
        result = _run(func, function, args, options)
        outputs = tensors_in(result)
        for tensor in outputs:  # an in-place operation is the new maker of its input
            self._makers[id(tensor)] = len(self.calls)
        self.calls.append(Call(function, args, options, outputs[0] if outputs else None, inputs))
        return result


def _run(func: Any, function: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Result of a call. Shapes of a batch norm are known; deriving them in PyTorch would dominate a run."""
    if function not in BATCH_NORMS:
        return func(*args, **options)
    data = args[0]
    return torch.empty_like(data), data.new_empty(0), data.new_empty(0)


def _read(calls: Sequence[Call]) -> Operators:
    users: defaultdict[int, list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        for maker in {maker for maker in call.inputs if maker is not None}:
            users[maker].append(number)
    readers: defaultdict[str, list[type[OperatorSettings]]] = defaultdict(list)
    for cls in OPERATOR_SETTINGS.values():
        for function in cls.calls:
            readers[function].append(cls)
    found: Counter[OperatorSettings] = Counter()
    skipped: Counter[str] = Counter()
    fused: set[int] = set()
    for number, call in enumerate(calls):
        if call.function not in readers or number in fused:
            continue
        try:
            settings = _settings(call, readers[call.function])
        except NotDescribedError as error:
            skipped[str(error)] += 1
        else:
            found[with_epilogue(settings, number, calls, users, fused)] += 1
    return Operators(found, skipped)


def _settings(call: TorchCall, readers: Sequence[type[OperatorSettings]]) -> OperatorSettings:
    """Settings from the first operator that describes the call; raises NotDescribedError with a reason."""
    reasons = []
    for cls in readers:
        try:
            settings = cls.read_call(call)
        except NotDescribedError as error:
            reasons.append(str(error))
        except SettingsError as error:
            reasons.append(f"{str(error).partition(':')[0]} outside what the settings allow")
        else:
            if settings is not None:
                return settings
    raise NotDescribedError(reasons[0] if reasons else f"{call.function} that no operator describes")


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
