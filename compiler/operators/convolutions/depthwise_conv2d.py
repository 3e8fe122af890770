"""Depthwise 2-D convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.knobs import BATCH, IN_CHANNELS, WINDOW_EPILOGUE, Knob, size_knob, window_knobs
from .base import ImageConvolution


@register
@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2d(ImageConvolution):
    """One filter per channel: data [batch, in_channels, height, width], weight [in_channels, 1, kh, kw]."""

    operator: ClassVar[str] = "depthwise_conv2d"
    random_networks = ("linear_stack", "searched_network", "wired_network")
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_relu6", "bias_gelu")
    draw_order: ClassVar[int] = 1
    share: ClassVar[float] = 0.1
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(),
        IN_CHANNELS,
        size_knob("height", "width"),
        BATCH,
        WINDOW_EPILOGUE,
    )

    @property
    def filters(self) -> int:
        return self.in_channels

    @property
    def group_count(self) -> int:
        return self.in_channels

    @classmethod
    def has_channels(cls, in_channels: int, out_channels: int, groups: int) -> bool:
        return in_channels == out_channels == groups > 1

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(batch=2, in_channels=5, height=8, width=9, kernel=(3, 5), stride=(1, 2), padding=(1, 2)),)
