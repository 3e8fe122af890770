"""Convolutions of few input channels, such as the first layer's three, filled up to whole pairs.

An instruction that adds products in pairs takes whole pairs of input channels, so that it cannot compute a
layer of three. A fourth channel of zeros costs a third of the products and makes it one of the instruction's
(Bolt, section 3.2.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

GROUP = 2
"""Products of bfloat16 that an instruction adds at once."""

FEW = 8
"""Input channels at most: the image of others is large, and filling it up would take longer."""


@tvm.transform.module_pass(opt_level=0, name="FilledChannels")
def filled_channels(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions with convolutions of NHWC and HWIO whose weights are constants."""
    changing = _FilledChannels(mod)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            changing.builder_.update_func(var, changing.visit_expr(func))
    return changing.builder_.get()


@mutator
class _FilledChannels(PyExprMutator):
    """Replaces the convolutions that no instruction of groups can compute."""

    def visit_call_(self, call: relax.Call) -> Any:
        """The convolution of whole groups of channels; other calls stay as they are."""
        call = super().visit_call_(call)
        if str(getattr(call.op, "name", "")) != "relax.nn.conv2d" or not _lacks_channels(call):
            return call
        image, weight = call.args[0], call.args[1].value.numpy()
        lacking = -weight.shape[2] % GROUP
        whole = np.pad(weight, [(0, 0), (0, 0), (0, lacking), (0, 0)])
        filled = self.builder_.emit(relax.op.nn.pad(image, [0] * 7 + [lacking]))
        return relax.Call(call.op, [filled, relax.const(whole, str(call.args[1].ty.dtype))], call.attrs)


def _lacks_channels(call: relax.Call) -> bool:
    """Whether a convolution has few input channels that are no whole groups."""
    attrs, weight = call.attrs, call.args[1]
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NHWC", "HWIO"):
        return False
    if not isinstance(weight, tvm.ir.GenericConst) or int(attrs.groups) != 1:
        return False
    channels = int(weight.ty.shape[2])
    return channels % GROUP != 0 and channels <= FEW
