"""1-D convolution, grouped or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.knobs import (
    BATCH,
    GROUPED_OUT_CHANNELS,
    IN_CHANNELS,
    WINDOW_EPILOGUE,
    Knob,
    size_knob,
    window_knobs,
)
from .base import FilteringConvolution


@register
@dataclass(frozen=True, kw_only=True)
class Conv1d(FilteringConvolution):
    """Data [batch, in_channels, length], weight [out_channels, in_channels / groups, kernel].

    For NWC the weight is [kernel, in_channels / groups, out_channels].
    """

    operator: ClassVar[str] = "conv1d"
    random_networks = ("sequence_network",)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_gelu", "bias_add", "add")
    axes: ClassVar[tuple[str, ...]] = ("length",)
    layouts: ClassVar[tuple[str, ...]] = ("NCW", "NWC")
    draw_order: ClassVar[int] = 5
    share: ClassVar[float] = 0.03
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(),
        IN_CHANNELS,
        Knob(("groups",), (("kernel", "in_channels"), ("in_channels",))),
        GROUPED_OUT_CHANNELS,
        size_knob("length"),
        BATCH,
        WINDOW_EPILOGUE,
    )

    length: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    layout: str = "NCW"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_groups(self.groups, smallest=1)

    @property
    def group_count(self) -> int:
        return self.groups

    @classmethod
    def has_channels(cls, in_channels: int, out_channels: int, groups: int) -> bool:
        return True

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        plain = cls(
            batch=2, in_channels=6, length=11, out_channels=4, kernel=3, stride=2, padding=1, dilation=2
        )
        grouped = replace(plain, groups=2)
        return plain, grouped, replace(grouped, layout="NWC", dtype="int8")
