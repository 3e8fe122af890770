"""One operator of a graph with the values of its operands.

A value is a tensor, or a NumPy array of objects: constants, and numbers that follow from extents. The
elements of such an array are Python's numbers or PyTorch's symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..onnx_rewrites.nodes import Node

Known = NDArray[Any]
"""Array of numbers and symbols."""

Value = Any
"""A tensor, a Known, or None for an operand that is not given."""

MOST_NUMBERS = 64
"""Numbers with which a graph computes extents; larger constants are tensors."""


class FixedExtentsError(Exception):
    """An operator cannot be computed with symbolic extents; the message is the reason."""


class OperatorCall(Node):
    """An operator, its attributes and the values of its operands."""

    def __init__(self, node: Node, values: Sequence[Value]) -> None:
        self.__dict__.update(node.__dict__)
        self.values = values
        self.onnx = node._onnx

    def given(self) -> list[torch.Tensor]:
        """All operands."""
        return [self.tensor(place) for place in range(len(self.values))]

    def tensor(self, place: int = 0) -> torch.Tensor:
        """An operand as a tensor."""
        return as_tensor(self.values[place], self.torch_type(place))

    def optional(self, place: int) -> torch.Tensor | None:
        """An operand as a tensor; None if it is not given."""
        return self.tensor(place) if self.has(place) else None

    def known(self, place: int) -> Known:
        """Numbers of an operand. Raises FixedExtentsError if they depend on the values of an input."""
        value = self.values[place]
        if not isinstance(value, torch.Tensor):
            found: Known = value
            return found
        constant = self.constant(place)
        if constant is None:
            raise FixedExtentsError(f"its operand {self.x(place)} depends on values")
        return known(constant)

    def numbers(self, place: int) -> list[Any]:
        """Numbers of an operand with one axis or none."""
        return list(self.known(place).reshape(-1))

    def number(self, place: int) -> Any:
        """The number of an operand with one element."""
        return self.numbers(place)[0]

    def axes(self, place: int) -> list[int] | None:
        """Axes by an attribute or, from later versions on, by an operand; None if neither is given."""
        axes = self.get("axes")
        if axes is None and self.has(place):
            axes = self.numbers(place)
        return None if axes is None else [int(axis) for axis in axes]

    def are_known(self) -> bool:
        """Whether the operands are a few numbers each."""
        return bool(self.values) and all(map(self.is_known, range(len(self.values))))

    def is_known(self, place: int) -> bool:
        """Whether an operand is a few numbers."""
        value = self.values[place]
        if isinstance(value, torch.Tensor):  # the number of elements of another tensor may be a symbol
            value = self.constant(place)
            return value is not None and value.size <= MOST_NUMBERS
        return value is None or value.size <= MOST_NUMBERS

    def torch_type(self, place: int) -> torch.dtype | None:
        """Data type of an operand, as far as ONNX infers it."""
        tensor = self._types.get(self.x(place))
        return None if tensor is None or not tensor.elem_type else torch_type(self.onnx, tensor.elem_type)


def torch_type(onnx: Any, element: int) -> torch.dtype:
    """PyTorch's data type for ONNX's number of one."""
    name = str(onnx.helper.tensor_dtype_to_np_dtype(element))
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise FixedExtentsError(f"PyTorch has no {name}")
    return found


def known(value: Any) -> Known:
    """Numbers as an array of objects."""
    array = np.asarray(value)
    return array if array.dtype == object else array.astype(object)


def as_tensor(value: Value, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Numbers as a tensor."""
    if isinstance(value, torch.Tensor):
        return value
    elements = list(value.reshape(-1))
    if all(isinstance(one, bool | int | float) for one in elements):
        return torch.tensor(value.tolist(), dtype=dtype)
    parts = [torch.scalar_tensor(one, dtype=dtype or torch.int64) for one in elements]
    return torch.stack(parts).reshape(value.shape)


Convert = Callable[[OperatorCall], Any]
"""Value of an operator's output, or the list of those of several."""
