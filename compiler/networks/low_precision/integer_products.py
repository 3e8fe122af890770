"""Products of a quantised network in integers: 8-bit operands and 32-bit sums.

An ONNX file in QDQ form computes in float32 between pairs of QuantizeLinear and DequantizeLinear. A product
of two dequantised operands is a product of integers but for constant factors and summands:

    sum s_x (x - z_x) s_w w  =  s_x s_w (sum x w  -  z_x sum w)

The pass takes the product of integers, then one factor and one summand for each output channel, which fold
the bias too. TVM fuses them, an activation after them, and the next quantisation into the product's function
(Bolt, section 3.1, epilogue fusion). Scales are arrays and no immediates, so that layers of one shape are one
task. What has no integer form is computed in float32, from dequantised values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ...templates.cpu.overflow import most_products
from ...types import INT8
from ..lowering.rewriting import mutated, operator_of
from .steps import RANGES, Affine, Steps, along, constant

PRODUCTS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d", "relax.matmul")
"""Operators that become products of integers."""

MOVES = (
    *("relax.permute_dims", "relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.strided_slice"),
    *("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d"),
)
"""Operators that give elements of their input unchanged, so that they move 8-bit integers as well."""

FLOAT_PRODUCTS = "foretune.float_products"
"""Attribute of a module: number of products that stay float32."""

_STEP = 4
"""Products that the instructions add at once: input channels come in such groups."""


def float_products(mod: tvm.IRModule) -> int:
    """Number of products that stay float32 in a module of `in_integers`, lowered or not; 0 for others."""
    return int((mod.attrs or {}).get(FLOAT_PRODUCTS, 0))


@tvm.transform.module_pass(opt_level=0, name="InIntegers")
def in_integers(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions with `quantize` and `dequantize` of constant scales."""
    changing = _InIntegers(mod)
    return mutated(mod, changing).with_attr(FLOAT_PRODUCTS, changing.float_products)


@mutator
class _InIntegers(PyExprMutator):
    """Knows of each variable whether it is a dequantised one, or a complete sum of products."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.float_products = 0
        self._steps: dict[relax.Var, Steps] = {}
        self._sums: dict[relax.Var, Affine] = {}
        self._bound: relax.Var | None = None

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Notes the variable whose value is visited."""
        self._bound = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> Any:
        """Integer forms, if they exist; other calls get float32."""
        name = operator_of(call)
        if name == "relax.dequantize" and (steps := self._dequantised(call)) is not None:
            return self._as_steps(steps)
        if name == "relax.quantize" and (found := self._quantised(call)) is not None:
            return found
        if name in PRODUCTS and (sums := self._product(call)) is not None:
            return self._as_sums(sums)
        if name == "relax.add" and (sums := self._biased(call)) is not None:
            return self._as_sums(sums)
        if name in MOVES and (steps := self._moved(call)) is not None:
            return self._as_steps(steps)
        self.float_products += name in PRODUCTS
        return relax.Call(call.op, [self._as_float32(arg) for arg in call.args], call.attrs, call.ty_args)

    def visit_tuple_(self, fields: relax.Tuple) -> Any:
        """A tuple of float32 values."""
        return relax.Tuple([self._as_float32(field) for field in fields.fields])

    def _as_steps(self, steps: Steps) -> Any:
        """Notes the steps of the variable; its float32 value is dead code if nothing reads it."""
        assert self._bound is not None
        self._steps[self._bound] = steps
        return steps.in_float(self.builder_)

    def _as_sums(self, sums: Affine) -> Any:
        assert self._bound is not None
        self._sums[self._bound] = sums
        return sums.in_float(self.builder_)

    def _as_float32(self, argument: Any) -> Any:
        """An argument in float32. Each reader dequantises on its own, so that 8-bit integers are stored."""
        if isinstance(argument, relax.Tuple):
            return self.visit_tuple_(argument)
        steps = self._steps.get(argument) if isinstance(argument, relax.Var) else None
        return self.visit_expr(argument) if steps is None else steps.in_float(self.builder_)

    def _dequantised(self, call: relax.Call) -> Steps | None:
        data, *parameters = call.args
        return Steps.of(self.visit_expr(data), parameters, int(call.attrs.axis))

    def _quantised(self, call: relax.Call) -> Any:
        """Rounded steps; nothing is computed if the value has these steps already."""
        data, *parameters = call.args
        dtype = str(call.attrs.out_dtype)
        grid = Steps.of(data, parameters, int(call.attrs.axis))
        if grid is None or dtype not in RANGES:
            return None
        had = self._steps.get(data)
        if had is not None and str(had.data.ty.dtype) == dtype and had.same_grid(grid):
            return had.data
        sums = self._sums.get(data)
        if sums is not None and grid.whole:
            return grid.rounded(self.builder_, sums.scaled(1.0 / float(grid.scale)), dtype)
        inverse = along(1.0 / grid.scale.astype(np.float64), grid.axis, len(data.ty.shape))
        scaled = self.builder_.emit(relax.op.multiply(self._as_float32(data), constant(inverse)))
        return grid.rounded(self.builder_, scaled, dtype)

    def _product(self, call: relax.Call) -> Affine | None:
        """The product in integers; None for other operands."""
        data, weight = (self._steps.get(arg) if isinstance(arg, relax.Var) else None for arg in call.args)
        if data is None or weight is None or not data.whole or not _is_narrow(data):
            return None
        weight = weight.signed()
        if weight is None or weight.zero_point.any():
            return None
        if str(call.op.name) == "relax.matmul":
            return self._matmul(data, weight)
        return self._convolution(call, data, weight)

    def _matmul(self, data: Steps, weight: Steps) -> Affine | None:
        rank, shape = len(data.data.ty.shape), [int(extent) for extent in weight.data.ty.shape]
        of_columns = weight.whole or weight.axis % len(shape) == len(shape) - 1
        if len(shape) < 2 or rank < 2 or not of_columns or _overflows(data, shape[-2]):
            return None
        values = weight.values
        if values is None:
            if data.zero_point.any():
                return None
            columns = np.zeros(shape[-1])
        elif len(shape) == 2:
            columns = values.astype(np.int64).sum(0)
        else:
            return None
        sums = self.builder_.emit(relax.op.matmul(data.data, weight.data, "int32"))
        return Affine.of(self.builder_, sums, data, weight, columns, -1)

    def _convolution(self, call: relax.Call, data: Steps, weight: Steps) -> Affine | None:
        attrs, values = call.attrs, weight.values
        layouts = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout)
        if values is None or not (layouts[0].startswith("NC") and layouts[1].startswith("OI")):
            return None
        of_channels = weight.whole or weight.axis % values.ndim == 0
        if layouts[2] != layouts[0] or not of_channels or _overflows(data, int(np.prod(values.shape[1:]))):
            return None
        operand, kernel, padding = data.data, values, [int(at) for at in attrs.padding]
        zero, rank = int(data.zero_point), values.ndim - 2
        lacking = -values.shape[1] % _STEP if int(attrs.groups) == 1 else 0
        # Around an image is the zero point. Channels that fill up a group have weights of zero.
        around = list(zip(padding[:rank], padding[rank:], strict=True))
        if zero == 0 or not any(padding):
            around = [(0, 0)] * rank
        else:
            padding = [0] * len(padding)
        if lacking or any(map(any, around)):
            widths = [0, 0, 0, lacking, *(width for pair in around for width in pair)]
            operand = self.builder_.emit(relax.op.nn.pad(operand, widths, pad_value=zero))
            kernel = np.pad(values, [(0, 0), (0, lacking), *[(0, 0)] * rank])
        convolve = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}[rank]
        sums = self.builder_.emit(
            convolve(
                operand,
                relax.const(np.ascontiguousarray(kernel), INT8),
                strides=[int(stride) for stride in attrs.strides],
                padding=padding,
                dilation=[int(dilation) for dilation in attrs.dilation],
                groups=int(attrs.groups),
                data_layout=layouts[0],
                kernel_layout=layouts[1],
                out_layout=layouts[2],
                out_dtype="int32",
            )
        )
        columns = values.astype(np.int64).reshape(values.shape[0], -1).sum(1)
        return Affine.of(self.builder_, sums, data, weight, columns, 1)

    def _biased(self, call: relax.Call) -> Affine | None:
        """A sum of products and a constant for each channel."""
        for data, bias in (call.args, reversed(call.args)):
            sums = self._sums.get(data) if isinstance(data, relax.Var) else None
            if sums is not None and (values := self._constant(bias)) is not None:
                return sums.plus(values)
        return None

    def _constant(self, argument: Any) -> Any:
        """float32 values of a constant argument, None for another."""
        if isinstance(argument, tvm.ir.GenericConst):
            return argument.value.numpy()
        steps = self._steps.get(argument) if isinstance(argument, relax.Var) else None
        return None if steps is None or steps.values is None else steps.dequantised()

    def _moved(self, call: relax.Call) -> Steps | None:
        """The move of integers; a constant is moved at once."""
        steps = self._steps.get(call.args[0]) if isinstance(call.args[0], relax.Var) else None
        if steps is None:
            return None
        if steps.values is not None:
            if call.op.name == "relax.permute_dims":
                axes = call.attrs.axes
                return steps.transposed(None if axes is None else [int(axis) for axis in axes])
            if call.op.name == "relax.reshape":
                return steps.reshaped([int(extent) for extent in call.args[1].values])
            return None
        if not steps.whole or not _is_narrow(steps):
            return None
        moved = relax.Call(call.op, [steps.data, *call.args[1:]], call.attrs, call.ty_args)
        return steps.of_data(self.builder_.emit(moved))


def _is_narrow(steps: Steps) -> bool:
    return str(steps.data.ty.dtype) in RANGES


def _overflows(data: Steps, depth: int) -> bool:
    """Whether sums of so many products may exceed 32 bits."""
    return depth > most_products(str(data.data.ty.dtype), INT8)
