"""Reads the operators that a PyTorch network calls, with what can be fused behind each, from one run of it.

A dispatch mode keeps the calls of one inference on the `meta` device, where a tensor has a shape and no
memory. The tensors tie the calls together, so that what follows an operator is read from the network: a
convolution, batch norm and ReLU become one operator with the epilogue `bias_relu`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..operators import OperatorSettings, Pool2d, SettingsError
from .call_epilogue import Call, tensors_in, with_epilogue
from .call_settings import BATCH_NORMS, READERS, NotDescribedError

NetworkFactory: TypeAlias = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
"""Builds a network and the arguments of its call, of batch 1, under `torch.device("meta")`."""


@dataclass(frozen=True)
class Operators:
    """What one inference of a network calls."""

    calls: Counter[OperatorSettings]
    """Calls of each operator with its epilogue."""
    skipped: Counter[str]
    """Calls of operators that no settings class describes, by reason."""


def log_operators(factory: NetworkFactory) -> Operators:
    """Builds a network on the meta device, runs it once in evaluation mode and reads its operators."""
    with torch.device("meta"), torch.no_grad():
        network, inputs = factory()
        with _CallLog() as log:
            network.eval()(*inputs)
    return _read(log.calls)


class _CallLog(TorchDispatchMode):
    """Keeps every call. As it keeps the tensors too, each has an `id` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._makers: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        inputs = tuple(self._makers.get(id(tensor)) for tensor in tensors_in((args, options)))
        result = _run(func, args, options)
        outputs = tensors_in(result)
        for tensor in outputs:  # an operation in place makes its own input anew
            self._makers[id(tensor)] = len(self.calls)
        output = outputs[0] if outputs else None
        self.calls.append(Call(func.overloadpacket, args, options, inputs, output))
        return result


def _run(func: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """The result's shapes. Those of a batch norm are known; deriving them would take most of a run."""
    if func.overloadpacket not in BATCH_NORMS:
        return func(*args, **options)
    data = args[0]
    return torch.empty_like(data), data.new_empty(0), data.new_empty(0)


def _read(calls: Sequence[Call]) -> Operators:
    users: defaultdict[int, list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        for maker in {maker for maker in call.inputs if maker is not None}:
            users[maker].append(number)
    found: Counter[OperatorSettings] = Counter()
    skipped: Counter[str] = Counter()
    fused: set[int] = set()
    for number, call in enumerate(calls):
        reader = READERS.get(call.function)
        if reader is None or number in fused:
            continue
        try:
            settings = reader(*call.args, **call.options)
            _check_output(settings, call)
        except NotDescribedError as error:
            skipped[str(error)] += 1
        except SettingsError as error:
            skipped[f"{str(error).partition(':')[0]} outside what the settings allow"] += 1
        else:
            found[with_epilogue(settings, number, calls, users, fused)] += 1
    return Operators(found, skipped)


def _check_output(settings: OperatorSettings, call: Call) -> None:
    """A pool that rounds its output up has other windows than the settings say."""
    if not isinstance(settings, Pool2d) or call.output is None or call.output.dim() < 4:
        return
    if settings.output_size != tuple(call.output.shape[-2:]):
        raise NotDescribedError("pooling that rounds its output up")
