"""Order in which a prior draws an operator's settings, and the settings each of them depends on.

One-Shot Tuner's Algorithm 1 draws the knobs of a task one by one; it fixes no order except that the window
comes first. The operators here draw the window, then channels, size of the input, batch and epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Knob:
    """Fields that are drawn together, and the conditions that the prior falls back to, longest first.

    The first condition is always all fields drawn before, the last is always none; `backoff` lists those
    between them.
    """

    fields: tuple[str, ...]
    backoff: tuple[tuple[str, ...], ...] = ()


def window_knobs(*padding: str, dilation: bool = True) -> tuple[Knob, ...]:
    """Kernel, stride and padding of a window; stride and padding depend on the kernel.

    Args:
        padding: further fields that pad.
        dilation: whether the window has a dilation.
    """
    dilated = (Knob(("dilation",), (("kernel", "padding"),)),) if dilation else ()
    paddings = tuple(Knob((name,), (("kernel", "stride"), ("kernel",))) for name in ("padding", *padding))
    return (Knob(("kernel",)), Knob(("stride",), (("kernel",),)), *paddings, *dilated)


IN_CHANNELS = Knob(("in_channels",), (("kernel", "stride"), ("kernel",)))
OUT_CHANNELS = Knob(("out_channels",), (("kernel", "in_channels"), ("in_channels",)))
GROUPED_OUT_CHANNELS = Knob(("out_channels",), (("in_channels", "groups"), ("groups",)))
BATCH = Knob(("batch",))


def size_knob(*axes: str) -> Knob:
    """Extents of the input, which shrink as its channels grow."""
    return Knob(axes, (("stride", "in_channels"), ("in_channels",)))


def epilogue_knob(*given: str) -> Knob:
    """The epilogue, given the fields that it depends on most."""
    return Knob(("epilogue",), (given,))


WINDOW_EPILOGUE = epilogue_knob("kernel", "stride")
