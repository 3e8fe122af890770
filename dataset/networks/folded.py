"""Convolutions of few input channels, such as the first layer's three, in a form that wide products can have.

An instruction that adds products in pairs takes whole pairs of input channels, so that it cannot compute a
layer of three. Bolt (section 3.2.3) fills the channels up, which costs a third of the products at three. With
channels last, neighbouring columns of an image are consecutive. Where the stride passes over as many columns,
they become channels of one column here, and the stride is one: two columns of three channels are one of six.
Windows get longer by a column at most, and the image stays as it is in memory. Other layers are filled up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

GROUP = 2
"""Products of bfloat16 that an instruction adds at once."""

FEW = 8
"""Input channels at most: the image of others is large, and filling it up would take longer."""


@tvm.transform.module_pass(opt_level=0, name="FoldedColumns")
def folded_columns(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions with convolutions of NHWC and HWIO whose weights are constants."""
    changing = _FoldedColumns(mod)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            changing.builder_.update_func(var, changing.visit_expr(func))
    return changing.builder_.get()


@mutator
class _FoldedColumns(PyExprMutator):
    """Replaces the convolutions that no instruction of groups can compute."""

    def visit_call_(self, call: relax.Call) -> Any:
        """The convolution of whole groups of channels; other calls stay as they are."""
        call = super().visit_call_(call)
        if str(getattr(call.op, "name", "")) != "relax.nn.conv2d" or not _lacks_channels(call):
            return call
        attrs, weight, image = call.attrs, call.args[1].value.numpy(), call.args[0]
        (top, left, bottom, right), stride = map(int, attrs.padding), int(attrs.strides[1])
        batch, height, columns, channels = (int(extent) for extent in image.ty.shape)
        if _folds(call):
            image = relax.op.reshape(image, (batch, height, columns // stride, stride * channels))
            count = (columns + left + right - weight.shape[1]) // stride + 1
            weight, left = _folded(weight, stride, left)
            right = count - 1 + weight.shape[1] - left - columns // stride
            stride = 1
        else:
            lacking = -channels % GROUP
            image = relax.op.nn.pad(image, [0] * 7 + [lacking])
            weight = np.pad(weight, [(0, 0), (0, 0), (0, lacking), (0, 0)])
        return relax.op.nn.conv2d(
            self.builder_.emit(image),
            relax.const(weight, str(call.args[1].ty.dtype)),
            strides=[int(attrs.strides[0]), stride],
            padding=[top, left, bottom, right],
            dilation=[int(step) for step in attrs.dilation],
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_dtype=attrs.out_dtype,
        )


def _lacks_channels(call: relax.Call) -> bool:
    """Whether a convolution has few input channels that are no whole groups."""
    attrs, weight = call.attrs, call.args[1]
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NHWC", "HWIO"):
        return False
    if not isinstance(weight, tvm.ir.GenericConst) or int(attrs.groups) != 1:
        return False
    channels = int(weight.ty.shape[2])
    return channels % GROUP != 0 and channels <= FEW


def _folds(call: relax.Call) -> bool:
    """Whether columns become channels in whole groups, with no more products than by filling up."""
    attrs, (_, width, channels, _) = call.attrs, (int(extent) for extent in call.args[1].ty.shape)
    stride, columns = int(attrs.strides[1]), int(call.args[0].ty.shape[2])
    if columns % stride or stride * channels % GROUP or int(attrs.dilation[1]) != 1:
        return False
    left = int(attrs.padding[1])
    taken = -(-(-left % stride + width) // stride) * stride
    return taken * channels <= width * (channels + -channels % GROUP)


def _folded(weight: NDArray[Any], stride: int, left: int) -> tuple[NDArray[Any], int]:
    """Weight [height, width, channels, filters] with `stride` columns as channels, and padding at its left.

    Windows begin at a whole number of strides from the image's edge: what is before the kernel has weights of
    zero, and so has what is behind it.
    """
    height, width, channels, filters = weight.shape
    before = -left % stride
    behind = -(before + width) % stride
    whole = np.pad(weight, [(0, 0), (before, behind), (0, 0), (0, 0)])
    folded = whole.reshape(height, -1, stride * channels, filters)
    return np.ascontiguousarray(folded), (left + before) // stride
