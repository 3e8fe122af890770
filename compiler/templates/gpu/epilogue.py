"""Epilogue of a product as GPU templates compute it: a bias, a residual, an activation.

Blocks after a product are known by the values that they give for a few sums. So it does not matter in which
steps a network spells its activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock
from tvm.tirx import BufferStore

from ...operators.shared.tir import extents

Values = NDArray[Any]


def _special() -> Any:
    """SciPy's special functions, whose import lasts a tenth of a second that few networks need."""
    from scipy import special

    return special


REFERENCES: Mapping[str, Callable[[Values], Values]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1.0 + _special().erf(x / np.sqrt(2.0))),
    "hardswish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "silu": lambda x: x * _special().expit(x),
    "softplus": lambda x: np.logaddexp(x, 0.0),
}
"""Activations of `problem.ACTIVATIONS` in NumPy."""

RANGE = 8.0
"""Largest absolute sum among the samples that are drawn."""

LARGE = (100.0, 600.0)
"""Absolute sums at which the blocks are sampled as well; their exp is finite."""

TOLERANCE = 1e-4
"""Difference from an activation, over the larger of its value and RANGE, up to which blocks compute it."""

_BINARY: Mapping[str, Callable[..., Values]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "And": np.logical_and,
    "Or": np.logical_or,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_CALLS: Mapping[str, Callable[..., Values]] = {
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "fabs": np.abs,
    "abs": np.abs,
    "erf": lambda x: _special().erf(x),
    "sigmoid": lambda x: _special().expit(x),
    "if_then_else": np.where,
}


@dataclass(frozen=True)
class Epilogue:
    """Steps after the sums: activation(sum + bias + residual)."""

    activation: str
    bias: int | None
    """Parameter with a value for each column; None for none."""
    residual: int | None
    """Parameter with a value for each element; None for none."""


class _UnknownError(Exception):
    """A step that no template computes."""


def read_epilogue(func: tirx.PrimFunc, sums: Any, behind: Sequence[SBlock]) -> Epilogue | None:
    """Epilogue of the blocks after a product, None if it is no template's.

    Args:
        func: the function.
        sums: array that the product writes, whose last axis are the columns.
        behind: element-wise blocks after it, in order; the last one writes the output.
    """
    reading = _EpilogueValues(func, sums, _constants(behind))
    try:
        with np.errstate(all="ignore"):
            found = reading.values(behind)
    except _UnknownError:
        return None
    for name, reference in REFERENCES.items():
        expected = reference(reading.added)
        if np.all(np.abs(found - expected) <= TOLERANCE * np.maximum(np.abs(expected), RANGE)):
            return Epilogue(name, reading.bias, reading.residual)
    return None


def _constants(blocks: Sequence[SBlock]) -> list[float]:
    """Finite constants of the blocks, such as the bounds of a clamp."""
    found: list[float] = []
    for block in blocks:
        tvm_ffi.structural_walk(block, (tirx.FloatImm, lambda constant: found.append(constant.value)))
    return [value for value in found if isfinite(value)]


class _EpilogueValues:
    """Values of the arrays of an epilogue, at as many elements as there are samples.

    The samples lie on both sides of each constant, so that a bound outside RANGE is seen too.
    """

    DRAWN = 64

    def __init__(self, func: tirx.PrimFunc, sums: Any, constants: Sequence[float]) -> None:
        self._params = list(func.params)
        self._shape = extents(sums)
        self._random = np.random.default_rng(0)
        drawn = self._random.uniform(-RANGE, RANGE, self.DRAWN)
        beyond = [
            value + side * distance
            for value in constants
            for side in (-1.0, 1.0)
            for distance in (RANGE, RANGE + abs(value))
        ]
        self.added = np.concatenate([drawn, LARGE, np.negative(LARGE), beyond])
        """Sums, and the values added to them so far."""
        self._known: list[tuple[Any, Values]] = [(sums, self.added)]
        self.bias: int | None = None
        self.residual: int | None = None

    def values(self, blocks: Sequence[SBlock]) -> Values:
        """Values of the array that the last block writes."""
        for block in blocks:
            stores = isinstance(block.body, BufferStore) and block.init is None
            if not stores or len(block.iter_vars) != len(self._shape):
                raise _UnknownError
            value = self._values_of(block.body.value, block)
            self._known.append((block.writes[0].source, np.broadcast_to(value, self.added.shape)))
        return self._known[-1][1]

    def _values_of(self, value: Any, block: SBlock) -> Values:
        if isinstance(value, TensorLoad):
            return self._loaded(value, block)
        if isinstance(value, tirx.FloatImm | tirx.IntImm):
            return np.asarray(float(value.value))
        if isinstance(value, tirx.Cast):
            return self._values_of(value.value, block)
        if isinstance(value, tirx.Select):
            parts = (value.condition, value.true_value, value.false_value)
            return np.where(*(self._values_of(part, block) for part in parts))
        if isinstance(value, Call):
            call = _CALLS.get(str(value.op.name).rpartition(".")[2])
            if call is not None:
                return call(*(self._values_of(argument, block) for argument in value.args))
        operator = _BINARY.get(type(value).__name__)
        if operator is None:
            raise _UnknownError
        return operator(self._values_of(value.a, block), self._values_of(value.b, block))

    def _loaded(self, load: TensorLoad, block: SBlock) -> Values:
        """Values of an array, a new one for an operand that was not read before."""
        axes, shape = [iterator.var for iterator in block.iter_vars], extents(load.source)
        whole = shape == self._shape and all(
            extent == 1 or index.same_as(axis)
            for extent, index, axis in zip(shape, load.indices, axes, strict=True)
        )
        of_columns = prod(shape) == shape[-1] == self._shape[-1] and load.indices[-1].same_as(axes[-1])
        for array, values in self._known:
            if array.same_as(load.source) and whole:
                return values
        number = next((n for n, param in enumerate(self._params) if param.same_as(load.source)), None)
        if number is None:
            raise _UnknownError
        # An output of one row has the shape of its bias; a template adds both alike.
        if of_columns and self.bias is None:
            self.bias = number
        elif whole and self.residual is None:
            self.residual = number
        else:
            raise _UnknownError
        values = self._random.uniform(-2.0, 2.0, self.added.size)
        self._known.append((load.source, values))
        self.added = self.added + values
        return values
