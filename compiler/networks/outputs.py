"""Outputs of PyTorch networks as plain tensors. Works without TVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils._pytree import tree_leaves

from ...errors import UserError
from .importing.scalar_indices import ScalarIndices


class BadOutputError(UserError, ValueError):
    """The network returns something other than tensors, or no tensor at all."""


def output_tensors(output: Any) -> list[torch.Tensor]:
    """Tensors of a network's output in order, out of nested lists, tuples, mappings and dataclasses.

    None, numbers and strings are left out. Raises BadOutputError for other objects, whose tensors would get
    lost, and if there is no tensor.
    """
    found = _tensors(output)
    if not found:
        raise BadOutputError(f"the output is a {type(output).__name__} without any tensor; return a tensor")
    return found


def output_arrays(output: Any) -> list[NDArray[Any]]:
    """Copies of `output_tensors` as arrays, of float32 where NumPy lacks the data type."""
    tensors = output_tensors(output)
    return [
        (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy().copy()
        for tensor in tensors
    ]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if value is None or isinstance(value, bool | int | float | complex | str):
        return []
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        parts = tree_leaves(value)  # of a class that is registered with PyTorch
        if len(parts) == 1 and parts[0] is value:
            raise BadOutputError(
                f"an output is a {type(value).__name__}, which PyTorch cannot take apart; return tensors, or "
                "lists, tuples, dicts or dataclasses of them"
            )
    return [tensor for part in parts for tensor in _tensors(part)]


def evaluating(module: nn.Module) -> nn.Module:
    """The module in evaluation mode; one that `torch.export` made cannot change its mode and keeps it."""
    try:
        return module.eval()
    except NotImplementedError:
        for part in module.modules():
            part.training = False
        return module


class TensorsOnly(nn.Module):
    """A network that returns the tensors of its output as one tuple.

    It runs in `context`, which is entered inside of a trace: torch.export has such contexts of its own.
    """

    def __init__(
        self, network: nn.Module, context: Callable[[], AbstractContextManager[Any]] = ScalarIndices
    ) -> None:
        super().__init__()
        self.network = network

        def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with context():
                return tuple(output_tensors(network(*inputs)))

        # torch.export names the inputs by the parameters of `forward`.
        forward.__signature__ = signature(network.forward)  # type: ignore[attr-defined]
        self.forward = forward
