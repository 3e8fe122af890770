"""Ungrouped 2-D convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.knobs import BATCH, IN_CHANNELS, OUT_CHANNELS, WINDOW_EPILOGUE, Knob, size_knob, window_knobs
from .base import FilteringConvolution, ImageConvolution


@register
@dataclass(frozen=True, kw_only=True)
class Conv2d(ImageConvolution, FilteringConvolution):
    """Ungrouped: data [batch, in_channels, height, width], weight [out_channels, in_channels, kh, kw]."""

    operator: ClassVar[str] = "conv2d"
    random_networks = ("linear_stack", "searched_network", "wired_network")
    epilogues: ClassVar[tuple[str, ...]] = (
        "none",
        "bias",
        "bias_relu",
        "bias_relu6",
        "bias_add",
        "bias_add_relu",
        "bias_gelu",
        "relu",
        "add",
    )
    draw_order: ClassVar[int] = 0
    share: ClassVar[float] = 0.45
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(),
        IN_CHANNELS,
        OUT_CHANNELS,
        size_knob("height", "width"),
        BATCH,
        WINDOW_EPILOGUE,
    )

    @classmethod
    def has_channels(cls, in_channels: int, out_channels: int, groups: int) -> bool:
        return groups == 1

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(
                batch=2, in_channels=3, height=9, width=7, out_channels=4, kernel=(3, 2), stride=(2, 1),
                padding=(1, 2), dilation=(2, 1),
            ),
            cls(batch=1, in_channels=4, height=1, width=1, out_channels=2, kernel=(1, 1)),
        )  # fmt: skip
