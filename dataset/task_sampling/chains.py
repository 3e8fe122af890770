"""Order in which the settings of each operator are drawn, and what each depends on most.

One-Shot Tuner's Algorithm 1 goes through the knobs of a task one by one; it leaves their order open but for
the window, which comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Knob:
    """Fields drawn together, and the conditions to fall back to, each shorter than the one before.

    The first condition, all knobs drawn before, and the last, none, are understood.
    """

    fields: tuple[str, ...]
    backoff: tuple[tuple[str, ...], ...] = ()


def _window(*padding: str, dilation: bool = True) -> tuple[Knob, ...]:
    """Kernel first, as in the paper, then what follows from it."""
    dilated = (Knob(("dilation",), (("kernel", "padding"),)),) if dilation else ()
    paddings = tuple(Knob((name,), (("kernel", "stride"), ("kernel",))) for name in ("padding", *padding))
    return (Knob(("kernel",)), Knob(("stride",), (("kernel",),)), *paddings, *dilated)


_IN = Knob(("in_channels",), (("kernel", "stride"), ("kernel",)))
_OUT = Knob(("out_channels",), (("kernel", "in_channels"), ("in_channels",)))
_BATCH = Knob(("batch",))


def _size(*axes: str) -> Knob:
    """The size of an input shrinks as its channels grow."""
    return Knob(axes, (("stride", "in_channels"), ("in_channels",)))


def _epilogue(*given: str) -> Knob:
    return Knob(("epilogue",), (given,))


_IMAGE = _size("height", "width")
CHAINS: Mapping[str, tuple[Knob, ...]] = {
    "conv2d": (*_window(), _IN, _OUT, _IMAGE, _BATCH, _epilogue("kernel", "stride")),
    "depthwise_conv2d": (*_window(), _IN, _IMAGE, _BATCH, _epilogue("kernel", "stride")),
    "group_conv2d": (
        *_window(),
        _IN,
        Knob(("groups",), (("in_channels",), ("kernel",))),
        Knob(("out_channels",), (("in_channels", "groups"), ("groups",))),
        _IMAGE,
        _BATCH,
        _epilogue("kernel", "stride"),
    ),
    "conv1d": (
        *_window(),
        _IN,
        Knob(("groups",), (("kernel", "in_channels"), ("in_channels",))),
        Knob(("out_channels",), (("in_channels", "groups"), ("groups",))),
        _size("length"),
        _BATCH,
        _epilogue("kernel", "stride"),
    ),
    "conv3d": (
        *_window(),
        _IN,
        _OUT,
        _size("depth", "height", "width"),
        _BATCH,
        _epilogue("kernel", "stride"),
    ),
    "group_conv3d": (
        *_window(),
        _IN,
        Knob(("groups",), (("in_channels",), ("kernel",))),
        Knob(("out_channels",), (("in_channels", "groups"), ("groups",))),
        _size("depth", "height", "width"),
        _BATCH,
        _epilogue("kernel", "stride"),
    ),
    "conv1d_transpose": (
        *_window("output_padding", dilation=False),
        _IN,
        _OUT,
        _size("length"),
        _BATCH,
        _epilogue("kernel", "stride"),
    ),
    "conv2d_transpose": (
        *_window("output_padding", dilation=False),
        _IN,
        _OUT,
        _IMAGE,
        _BATCH,
        _epilogue("kernel", "stride"),
    ),
    "capsule_conv2d": (*_window(dilation=False), _IN, _OUT, _IMAGE, _BATCH, Knob(("capsule_size",))),
    "conv2d_winograd": (
        Knob(("padding",)),
        Knob(("in_channels",)),
        Knob(("out_channels",), (("in_channels",),)),
        Knob(("height", "width"), (("in_channels",),)),
        _BATCH,
        _epilogue("in_channels"),
    ),
    "dense": (
        Knob(("rows",)),
        Knob(("in_features",)),
        Knob(("out_features",), (("in_features",),)),
        _epilogue("in_features", "out_features"),
    ),
    "batch_matmul": (
        Knob(("rows",)),
        Knob(("inner",)),
        Knob(("columns",), (("rows",), ("inner",))),
        Knob(("batch",), (("rows", "inner"), ("rows",))),
        Knob(("transpose_right",), (("inner", "columns"), ("inner",))),
    ),
    "softmax": (Knob(("columns",)), Knob(("rows",), (("columns",),))),
    "layer_norm": (Knob(("columns",)), Knob(("rows",), (("columns",),))),
    "batch_norm": (
        Knob(("channels",)),
        Knob(("height", "width"), (("channels",),)),
        _BATCH,
        _epilogue("channels"),
    ),
    "group_norm": (
        Knob(("channels",)),
        Knob(("groups",), (("channels",),)),
        Knob(("height", "width"), (("channels",),)),
        _BATCH,
        _epilogue("channels"),
    ),
    "frobenius_norm": (Knob(("rows", "columns")), Knob(("batch",))),
    "pool2d": (
        Knob(("mode",)),
        Knob(("kernel",), (("mode",),)),
        Knob(("stride",), (("mode", "kernel"), ("kernel",))),
        Knob(("padding",), (("mode", "kernel"), ("kernel",))),
        Knob(("channels",), (("mode", "kernel"), ("kernel",))),
        Knob(("height", "width"), (("kernel", "channels"), ("kernel", "stride"))),
        _BATCH,
    ),
    "reduction": (
        Knob(("mode",)),
        Knob(("axis",)),
        Knob(("columns",), (("mode", "axis"), ("axis",))),
        Knob(("rows",), (("axis", "columns"), ("axis",))),
    ),
}
"""Order of the knobs: the window first, as in the paper, then channels, size of the input and epilogue.

The fall-back conditions are what ties a knob to the rest in common networks: padding follows the kernel,
out channels the in channels, and the size of an input shrinks as its channels grow. A zoo tells neither data
type nor layout and runs a batch of 1, so those are not drawn here but behind the chain.
"""
