"""Sums of very many elements as sums of partial sums.

A loop that adds n elements one after the other loses those that are below the last digit of the sum so far:
up to n * 2**-24 of the sum in float32, such as 1e-3 of a softmax over a vocabulary. PyTorch and ONNX Runtime
add in vectors or in a tree, and lose little. Here such a sum has two steps, each with few elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .rewriting import extents_of, has_fixed_shape, mutated, operator_of

LONG_AXIS, LONG = 1 << 13, 1 << 18
"""Elements of one axis, and of all axes of a sum, from which on it is split."""

_SOFTMAX = ("relax.nn.softmax", "relax.nn.log_softmax")
_SUMS = ("relax.sum", "relax.mean")
_GROUP_NORM, _LAYER_NORM = "relax.nn.group_norm", "relax.nn.layer_norm"
_NORMS = (_GROUP_NORM, "relax.nn.instance_norm", _LAYER_NORM)


@tvm.transform.module_pass(opt_level=0, name="LongSums")
def long_sums(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Splits sums, means, softmax and norms over very many elements, before they become functions."""
    return mutated(mod, _Splitting(mod))


@mutator
class _Splitting(PyExprMutator):
    """Replaces each operator with a long sum by operators with short ones."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """The call, or the same values from short sums."""
        call = super().visit_call_(call)
        name = operator_of(call)
        if name in _NORMS:
            return self._norm(call, name)
        if name not in (*_SOFTMAX, *_SUMS) or not _has_known_floats(call.args[0]):
            return call
        data = call.args[0]
        axes = _axes(call, len(extents_of(data)))
        reduced = [extents_of(data)[axis] for axis in axes]
        if not _is_long(reduced):
            return call
        if name in _SOFTMAX:
            return self._softmax(data, axes[0], logarithm=name == _SOFTMAX[1])
        kept = bool(call.attrs.keepdims)
        total = self._sum(data, axes)
        if name == "relax.mean":
            total = self._emit(relax.op.divide(total, relax.const(math.prod(reduced), data.ty.dtype)))
        return relax.op.reshape(total, _with_ones(data, axes)) if kept else total

    def _norm(self, call: relax.Call, name: str) -> relax.Expr:
        """A normalisation whose variance is the mean of squared differences; TVM subtracts a squared mean."""
        data, *factors = call.args
        if not _has_known_floats(data) or str(data.ty.dtype) not in ("float32", "float64"):
            return call
        extents = extents_of(data)
        axes = scaled = [int(axis) % len(extents) for axis in call.attrs.axes]
        parted = extents
        if name != _LAYER_NORM:  # whose factors belong to the axes that it reduces
            channels = int(call.attrs.channel_axis) % len(extents)
            scaled = [channels]
        if name == _GROUP_NORM:
            groups = int(call.attrs.num_groups)
            parted = [*extents[:channels], groups, extents[channels] // groups, *extents[channels + 1 :]]
            axes = [channels + 1, *(axis + (axis > channels) for axis in axes)]
        if not _is_long([parted[axis] for axis in axes]):
            return call
        data = self._reshaped(data, parted)
        count = relax.const(math.prod(parted[axis] for axis in axes), data.ty.dtype)

        def mean(value: relax.Expr) -> relax.Expr:
            summed = self._reshaped(self._sum(value, axes), _with_ones(data, axes))
            return self._emit(relax.op.divide(summed, count))

        centred = self._emit(relax.op.subtract(data, mean(data)))
        variance = mean(self._emit(relax.op.multiply(centred, centred)))
        epsilon = relax.const(float(call.attrs.epsilon), data.ty.dtype)
        deviation = self._emit(relax.op.sqrt(self._emit(relax.op.add(variance, epsilon))))
        found = self._reshaped(self._emit(relax.op.divide(centred, deviation)), extents)
        shape = [extent if axis in scaled else 1 for axis, extent in enumerate(extents)]
        scale, shift = (self._reshaped(factor, shape) for factor in factors)
        return relax.op.add(self._emit(relax.op.multiply(found, scale)), shift)

    def _softmax(self, data: relax.Expr, axis: int, *, logarithm: bool) -> relax.Expr:
        shifted = self._emit(relax.op.subtract(data, self._emit(relax.op.max(data, axis, keepdims=True))))
        powers = self._emit(relax.op.exp(shifted))
        total = self._emit(relax.op.expand_dims(self._sum(powers, [axis]), axis))
        if logarithm:
            return relax.op.subtract(shifted, self._emit(relax.op.log(total)))
        return relax.op.divide(powers, total)

    def _sum(self, data: relax.Expr, axes: Sequence[int]) -> relax.Expr:
        """The sum over some axes, one after the other, the last one first."""
        for axis in sorted(axes, reverse=True):
            data = self._sum_of_axis(data, axis)
        return data

    def _sum_of_axis(self, data: relax.Expr, axis: int) -> relax.Expr:
        extents = extents_of(data)
        length = extents[axis]
        if length < LONG_AXIS:
            return self._emit(relax.op.sum(data, axis))
        step = 1 << (math.isqrt(length).bit_length() - 1)  # a whole number of vectors
        rows, rest = divmod(length, step)
        whole = data if not rest else self._emit(relax.op.strided_slice(data, [axis], [0], [rows * step]))
        parted = self._emit(relax.op.reshape(whole, [*extents[:axis], rows, step, *extents[axis + 1 :]]))
        total = self._emit(relax.op.sum(self._emit(relax.op.sum(parted, axis)), axis))
        if not rest:
            return total
        last = self._emit(relax.op.strided_slice(data, [axis], [rows * step], [length]))
        return self._emit(relax.op.add(total, self._emit(relax.op.sum(last, axis))))

    def _reshaped(self, data: relax.Expr, shape: Sequence[int]) -> relax.Expr:
        """The tensor in another shape; unchanged if it has this shape."""
        return data if extents_of(data) == [*shape] else self._emit(relax.op.reshape(data, shape))

    def _emit(self, value: relax.Expr) -> relax.Var:
        return self.builder_.emit(value)


def _is_long(reduced: Sequence[int]) -> bool:
    """Whether a sum over axes of these extents is split."""
    return max(reduced, default=0) >= LONG_AXIS or math.prod(reduced) >= LONG


def _with_ones(data: relax.Expr, axes: Sequence[int]) -> list[int]:
    """Extents of a tensor whose `axes` were reduced to one element."""
    return [1 if axis in axes else extent for axis, extent in enumerate(extents_of(data))]


def _has_known_floats(value: relax.Expr) -> bool:
    """Whether a value is a tensor of floats whose extents are numbers."""
    return has_fixed_shape(value) and str(value.ty.dtype).startswith(("float", "bfloat"))


def _axes(call: relax.Call, rank: int) -> list[int]:
    """Axes that a call reduces, counted from the front."""
    found = call.attrs.axis
    if found is None:
        return list(range(rank))
    axes = found if isinstance(found, tvm.ir.Array | list | tuple) else [found]
    return [int(axis) % rank for axis in axes]
