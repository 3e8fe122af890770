"""Convolutions without the taps of their windows that read nothing but padding.

A window may be larger than the image: 3 x 3 over the single row of a text line reads two rows of padding,
and two thirds of its products are zeros. Windows with large dilations do so, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.expr_functor import PyExprMutator, mutator

from .rewriting import mutated, operator_of

CONVOLUTIONS = {f"relax.nn.{name}": getattr(relax.op.nn, name) for name in ("conv1d", "conv2d", "conv3d")}
"""Operators with channels first, whose weights have their window last."""


@tvm.transform.module_pass(opt_level=0, name="DeadTaps")
def without_dead_taps(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions; outputs keep their values for finite weights."""
    cutting = _Cut(mod)
    changed = mutated(mod, cutting)
    return changed if cutting.has_cut else mod


@mutator
class _Cut(PyExprMutator):
    """Convolutions with smaller windows."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.has_cut = False

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """The convolution with its live taps, or the call itself."""
        if operator_of(call) not in CONVOLUTIONS or not isinstance(call.args[1], GenericConst):
            return call
        layouts = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
        if not (layouts[0].startswith("NC") and layouts[1].startswith("OI")):
            return call
        cuts = _cuts(call)
        if cuts == [(0, taps) for taps in _window(call)]:
            return call
        self.has_cut = True
        return _with_window(call, cuts)


def _window(call: relax.Call) -> list[int]:
    return [int(taps) for taps in call.args[1].ty.shape][2:]


def _cuts(call: relax.Call) -> list[tuple[int, int]]:
    """First tap to keep, and the one after the last, along each axis of the window."""
    attrs, window = call.attrs, _window(call)
    pads = [int(pad) for pad in attrs.padding]
    return [
        live_taps(_fixed(size), _fixed(outputs), taps, int(stride), before, after, int(dilation))
        for size, outputs, taps, stride, before, after, dilation in zip(
            list(call.args[0].ty.shape)[2:],
            list(call.ty.shape)[2:],
            window,
            attrs.strides,
            pads[: len(window)],
            pads[len(window) :],
            attrs.dilation,
            strict=True,
        )
    ]


def _with_window(call: relax.Call, cuts: Sequence[tuple[int, int]]) -> relax.Expr:
    """A convolution with these taps, and with the padding that they read."""
    attrs, weight, window = call.attrs, call.args[1], _window(call)
    taken = (slice(None), slice(None), *(slice(*cut) for cut in cuts))
    kept = weight.value.numpy()[taken]
    pads = [int(pad) for pad in attrs.padding]
    cut_off = [low for low, _ in cuts] + [taps - high for taps, (_, high) in zip(window, cuts, strict=True)]
    dilation = [int(by) for by in attrs.dilation] * 2
    return CONVOLUTIONS[operator_of(call)](
        call.args[0],
        relax.const(np.ascontiguousarray(kept), str(weight.ty.dtype)),
        strides=attrs.strides,
        padding=[pad - taps * by for pad, taps, by in zip(pads, cut_off, dilation, strict=True)],
        dilation=attrs.dilation,
        groups=attrs.groups,
        data_layout=attrs.data_layout,
        kernel_layout=attrs.kernel_layout,
        out_layout=attrs.out_layout,
        out_dtype=str(attrs.out_dtype or "") or None,
    )


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
