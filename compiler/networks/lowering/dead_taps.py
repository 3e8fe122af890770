"""Convolutions without the taps of their windows that read nothing but padding.

A window may be larger than the image: 3 x 3 over the single row of a text line reads two rows of padding,
and two thirds of its products are zeros. Windows with large dilations do so, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, wildcard

from .rewriting import rewritten

CONVOLUTIONS = {"conv1d": relax.op.nn.conv1d, "conv2d": relax.op.nn.conv2d, "conv3d": relax.op.nn.conv3d}
"""Operators with channels first, whose weights have their window last."""


@tvm.transform.module_pass(opt_level=0, name="DeadTaps")
def without_dead_taps(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions; outputs keep their values for finite weights."""
    for name in CONVOLUTIONS:
        mod = _without(mod, name)
    return mod


def _without(mod: tvm.IRModule, name: str) -> tvm.IRModule:
    weight = is_const()
    convolution = is_op(f"relax.nn.{name}")(wildcard(), weight)

    def rewrite(expr: relax.Expr, matches: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        attrs, constant = expr.attrs, matches[weight]
        data, axes = expr.args[0], len(expr.ty.shape) - 2
        if not str(attrs.data_layout).startswith("NC") or not str(attrs.kernel_layout).startswith("OI"):
            return expr
        pads = [int(one) for one in attrs.padding]
        cuts = [
            live_taps(size, outputs, taps, int(stride), before, after, int(dilation))
            for size, outputs, taps, stride, before, after, dilation in zip(
                map(_fixed, list(data.ty.shape)[2:]),
                map(_fixed, list(expr.ty.shape)[2:]),
                [int(one) for one in constant.ty.shape][2:],
                attrs.strides,
                pads[:axes],
                pads[axes:],
                attrs.dilation,
                strict=True,
            )
        ]
        values = constant.value.numpy()
        window = (slice(None), slice(None), *(slice(*one) for one in cuts))
        kept = values[window]
        if kept.shape == values.shape:
            return expr
        last = values.shape[2:]
        dilations = [int(one) for one in attrs.dilation]
        before = [pad - low * by for pad, (low, _), by in zip(pads, cuts, dilations, strict=False)]
        after = [
            pad - (taps - high) * by
            for pad, taps, (_, high), by in zip(pads[axes:], last, cuts, dilations, strict=True)
        ]
        return CONVOLUTIONS[name](
            data,
            relax.const(np.ascontiguousarray(kept), str(constant.ty.dtype)),
            strides=attrs.strides,
            padding=[*before, *after],
            dilation=attrs.dilation,
            groups=attrs.groups,
            data_layout=attrs.data_layout,
            kernel_layout=attrs.kernel_layout,
            out_layout=attrs.out_layout,
            out_dtype=str(attrs.out_dtype or "") or None,
        )

    return rewritten(mod, convolution, rewrite)


def live_taps(
    size: int | None, outputs: int | None, taps: int, stride: int, before: int, after: int, dilation: int
) -> tuple[int, int]:
    """First tap to keep along an axis, and the one after the last.

    All others read nothing but the `before` and `after` elements of padding around `size` elements. No more
    are cut than the padding has elements for. None for an extent that is a symbol, which keeps all taps.
    """
    if size is None or outputs is None:
        return 0, taps
    live = [tap for tap in range(taps) if _reads(tap * dilation - before, size, outputs, stride)]
    if not live:
        return 0, taps
    return max(0, min(live[0], before // dilation)), max(live[-1] + 1, taps - after // dilation)


def _reads(first: int, size: int, outputs: int, stride: int) -> bool:
    """Whether one of these places is inside of the data: `first`, and so many in all by `stride`."""
    return any(0 <= place < size for place in range(first, first + outputs * stride, stride))


def _fixed(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, tvm.tirx.IntImm) else None
