"""Ungrouped 3-D convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.knobs import BATCH, IN_CHANNELS, OUT_CHANNELS, WINDOW_EPILOGUE, Knob, size_knob, window_knobs
from .base import VolumeConvolution


@register
@dataclass(frozen=True, kw_only=True)
class Conv3d(VolumeConvolution):
    """Ungrouped: weight [out_channels, in_channels, kd, kh, kw]."""

    operator: ClassVar[str] = "conv3d"
    random_networks = ("video_network",)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_add", "bias_add_relu")
    draw_order: ClassVar[int] = 7
    share: ClassVar[float] = 0.015
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(),
        IN_CHANNELS,
        OUT_CHANNELS,
        size_knob("depth", "height", "width"),
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
                batch=1, in_channels=2, depth=5, height=6, width=7, out_channels=3, kernel=(1, 3, 2),
                stride=(1, 2, 1), padding=(0, 1, 1),
            ),
        )  # fmt: skip
