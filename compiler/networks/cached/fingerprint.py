"""Hash of what a network computes: operators, settings and weights, without its inputs' values.

A PyTorch module runs once, and the hash reads each operator that PyTorch dispatches. This takes a run's time,
where an export takes seconds. Works without TVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from inspect import signature
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from ..importing.onnx_graph import load
from ..loading import Network
from ..operator_mode import OperatorMode
from ..outputs import output_tensors


class NoFingerprintError(ValueError):
    """One run does not show all that a network computes."""


def fingerprint(network: Network, *, quantised: bool = False) -> str | None:
    """SHA-256 of the network, or of its quantised form; None if one run does not tell what it computes.

    Networks with the same hash compute the same for inputs of these shapes and data types.
    """
    path = network.quantised_path if quantised else network.onnx_path
    hashed = sha256(repr([(array.shape, str(array.dtype)) for array in network.inputs]).encode())
    try:
        if path is not None:
            hashed.update(load(path).SerializeToString(deterministic=True))
            return hashed.hexdigest()
        if quantised or network.module is None:
            return None
        recorder = _Recorder(hashed)
        inputs = network.torch_inputs()
        hashed.update(repr([*signature(network.module.forward).parameters]).encode())
        for tensor in inputs:
            recorder.number(tensor, of_inputs=True)
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            with recorder:
                output = network.module(*inputs)
            if not torch.equal(before, torch.get_rng_state()):  # it draws random numbers
                return None
            recorder.read(output_tensors(output))
    except Exception:  # a run under observation may raise anything, where another run does not
        return None
    return hashed.hexdigest()


_PLAIN = (
    *(type(None), bool, int, float, complex, str),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""Types whose text is their value."""


class _Recorder(OperatorMode):
    """Context that adds operators to a hash: names, settings, and tensors.

    A tensor that an earlier operator made has a number. Others are weights, which are read by value. Python
    may see values that come from weights alone: those of inputs could lead to other operators.
    """

    def __init__(self, hashed: Any) -> None:
        super().__init__()
        self._hashed = hashed
        self._numbers = WeakTensorKeyDictionary()
        self._of_inputs = WeakTensorKeyDictionary()
        self._next = 0
        self._any_of_inputs = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls the operator. Raises NoFingerprintError for one that the hash cannot stand for."""
        given = tree_leaves((args, kwargs))
        of_inputs = self._any_of_inputs or any(self._is_of_inputs(value) for value in given)
        # Another tensor may be a view of one that is changed in place.
        self._any_of_inputs |= of_inputs and func._schema.is_mutable
        self._hashed.update(f"{func}".encode())
        self.read([*args, *sorted((kwargs or {}).items())])
        result = func(*args, **(kwargs or {}))
        made = result if isinstance(result, list | tuple) else [result]
        values = [value for value in made if not isinstance(value, torch.Tensor)]
        if of_inputs and (values or torch.Tag.dynamic_output_shape in func.tags):
            raise NoFingerprintError(str(func))
        for value in made:
            if isinstance(value, torch.Tensor):
                self.number(value, of_inputs=of_inputs)
        self.read(values)
        return result

    def number(self, tensor: torch.Tensor, *, of_inputs: bool = False) -> None:
        """Gives a tensor the next number, unless it has one, as the tensor that an operator changes."""
        if tensor not in self._numbers:
            self._numbers[tensor] = self._next
            self._of_inputs[tensor] = of_inputs
            self._next += 1

    def _is_of_inputs(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and self._of_inputs.get(value, False)

    def read(self, values: Iterable[Any]) -> None:
        """Adds arguments to the hash. Raises NoFingerprintError."""
        for value in values:
            if isinstance(value, torch.Tensor):
                self._read_tensor(value)
            elif isinstance(value, list | tuple):
                self._hashed.update(f"({len(value)}".encode())
                self.read(value)
            elif isinstance(value, _PLAIN):
                self._hashed.update(f";{value!r}".encode())
            else:
                raise NoFingerprintError(f"{type(value)}")

    def _read_tensor(self, tensor: torch.Tensor) -> None:
        if tensor not in self._numbers:
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                raise NoFingerprintError(f"{type(tensor)}")
            self._hashed.update(f"${tensor.dtype}{list(tensor.shape)}{tensor.stride()}".encode())
            values = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            self._hashed.update(values.numpy())
            self.number(tensor)
        self._hashed.update(f"#{self._numbers[tensor]}".encode())
