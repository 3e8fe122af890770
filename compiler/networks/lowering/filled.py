"""Convolutions of few input channels, such as the first layer's three, filled up to whole groups.

An instruction that adds products in pairs takes whole pairs of input channels, so that it cannot compute a
layer of three. A fourth channel of zeros costs a third of the products and makes it one of the instruction's.
A GPU loads eight channels of 16 bits at once (Bolt, section 3.2.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, wildcard

from .rewriting import rewritten

ALIGNED = 8
"""Values of 16 bits that a GPU loads at once."""

FEW = 8
"""Input channels at most: the image of others is large, and filling it up would take longer."""


def filled_channels(group: int) -> Any:
    """Pass over Relax functions with convolutions of NHWC and HWIO whose weights are constants.

    `group` is the number of channels of a whole group.
    """

    def filled(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return _filled(mod, group)

    return tvm.transform.module_pass(filled, opt_level=0, name="FilledChannels")


def _filled(mod: tvm.IRModule, group: int) -> tvm.IRModule:
    def rewrite(call: relax.Expr, _: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        if not _lacks_channels(call, group):
            return call
        image, weight = call.args[0], call.args[1].value.numpy()
        lacking = -weight.shape[2] % group
        filled = relax.op.nn.pad(image, [0] * 7 + [lacking])
        whole = np.pad(weight, [(0, 0), (0, 0), (0, lacking), (0, 0)])
        return relax.Call(call.op, [filled, relax.const(whole, str(call.args[1].ty.dtype))], call.attrs)

    return rewritten(mod, is_op("relax.nn.conv2d")(wildcard(), is_const()), rewrite)


def _lacks_channels(call: relax.Call, group: int) -> bool:
    """Whether a convolution has few input channels that are no whole groups."""
    attrs, weight = call.attrs, call.args[1]
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NHWC", "HWIO"):
        return False
    channels = int(weight.ty.shape[2])
    return int(attrs.groups) == 1 and channels % group != 0 and channels <= FEW
