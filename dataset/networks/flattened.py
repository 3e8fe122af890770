"""Convolutions of few input channels, such as the first layer's three, in a form that wide products can have.

An instruction that adds products in pairs takes whole pairs of input channels, so that it cannot compute a
layer of three. Filling them up to four costs a third of the products. Behind channels last, the window of an
output in one line of the image is consecutive: width of the kernel times channels. Here it becomes the input
channels of a convolution whose kernel is one wide, and only the end of the window is filled up (Bolt, section
3.2.3, pads the channels of such layers).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

GROUP = 2
"""Products of bfloat16 that an instruction adds at once."""


@tvm.transform.module_pass(opt_level=0, name="FlattenedWindows")
def flattened_windows(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions with convolutions of NHWC and HWIO whose weights are constants."""
    changing = _FlattenedWindows(mod)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            changing.builder_.update_func(var, changing.visit_expr(func))
    return changing.builder_.get()


@mutator
class _FlattenedWindows(PyExprMutator):
    """Replaces the convolutions that no instruction of groups can compute and whose kernels are wide."""

    def visit_call_(self, call: relax.Call) -> Any:
        """The convolution of flattened windows; other calls stay as they are."""
        call = super().visit_call_(call)
        if str(getattr(call.op, "name", "")) != "relax.nn.conv2d" or not _is_narrow(call):
            return call
        attrs, weight = call.attrs, call.args[1].value.numpy()
        height, width, channels, filters = weight.shape
        depth = -(-width * channels // GROUP) * GROUP
        windows = self.builder_.emit_te(
            _windows,
            call.args[0],
            width,
            depth,
            int(attrs.strides[1]),
            [int(around) for around in attrs.padding],
            primfunc_name_hint="windows",
        )
        kernel = np.zeros((height, depth, filters), weight.dtype)
        kernel[:, : width * channels] = weight.reshape(height, width * channels, filters)
        return relax.op.nn.conv2d(
            windows,
            relax.const(kernel[:, None], str(call.args[1].ty.dtype)),
            strides=[int(attrs.strides[0]), 1],
            dilation=[int(attrs.dilation[0]), 1],
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_dtype=attrs.out_dtype,
        )


def _is_narrow(call: relax.Call) -> bool:
    """Whether a convolution has input channels that are no whole groups, and a window to flatten."""
    attrs, weight = call.attrs, call.args[1]
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NHWC", "HWIO"):
        return False
    if not isinstance(weight, tvm.ir.GenericConst) or int(attrs.groups) != 1 or int(attrs.dilation[1]) != 1:
        return False
    _, width, channels, _ = (int(extent) for extent in weight.ty.shape)
    return channels % GROUP != 0 and width > 1


def _windows(data: te.Tensor, width: int, depth: int, stride: int, padding: list[int]) -> te.Tensor:
    """Windows of each line of an image [batch, height, width, channels], in `depth` elements.

    `padding` are lines and columns of zeros at the top, left, bottom and right. What fills a window up are
    elements behind it, which have weights of zero.
    """
    batch, height, columns, channels = (int(extent) for extent in data.shape)
    top, left, bottom, right = padding
    count = (columns + left + right - width) // stride + 1
    length = max((columns + left + right) * channels, (count - 1) * stride * channels + depth)

    def padded(image: Any, line: Any, at: Any) -> Any:
        column, channel = tirx.floordiv(at, channels), tirx.floormod(at, channels)
        inside = tirx.all(
            line >= top, line < top + height, at >= left * channels, at < (left + columns) * channels
        )
        return tirx.if_then_else(
            inside, data[image, line - top, column - left, channel], tirx.const(0, data.dtype)
        )

    lines = te.compute((batch, top + height + bottom, length), padded, name="lines")
    return te.compute(
        (batch, top + height + bottom, count, depth),
        lambda image, line, column, term: lines[image, line, column * stride * channels + term],
        name="windows",
    )
