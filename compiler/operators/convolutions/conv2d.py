"""2-D convolutions: ungrouped, grouped and depthwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.checks import SettingsError
from ..shared.knobs import (
    BATCH,
    GROUPED_OUT_CHANNELS,
    IN_CHANNELS,
    OUT_CHANNELS,
    WINDOW_EPILOGUE,
    Knob,
    size_knob,
    window_knobs,
)
from .base import FilteringConvolution, ImageConvolution, draw_groups

if TYPE_CHECKING:
    import numpy as np


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


@register
@dataclass(frozen=True, kw_only=True)
class GroupConv2d(ImageConvolution, FilteringConvolution):
    """Grouped: weight [out_channels, in_channels / groups, kh, kw].

    With one input channel per group and several filters, it is depthwise with a channel multiplier.
    """

    operator: ClassVar[str] = "group_conv2d"
    random_networks = ("linear_stack",)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_relu6", "bias_gelu")
    draw_order: ClassVar[int] = 4
    share: ClassVar[float] = 0.04
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(),
        IN_CHANNELS,
        Knob(("groups",), (("in_channels",), ("kernel",))),
        GROUPED_OUT_CHANNELS,
        size_knob("height", "width"),
        BATCH,
        WINDOW_EPILOGUE,
    )

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_groups(self.groups, smallest=2)
        if self.groups == self.in_channels == self.out_channels:
            raise SettingsError(
                f"{self.operator}: groups={self.groups} of as many channels in and out is depthwise: use "
                "depthwise_conv2d"
            )

    @property
    def group_count(self) -> int:
        return self.groups

    @classmethod
    def has_channels(cls, in_channels: int, out_channels: int, groups: int) -> bool:
        return groups > 1 and not in_channels == out_channels == groups

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        return {**super().draw_uniform(rng, **drawn), **draw_groups(cls.largest["in_channels"], rng)}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(
                batch=1, in_channels=4, height=7, width=8, out_channels=6, kernel=(3, 3), padding=(0, 1),
                groups=2,
            ),
            # Depthwise with two filters per channel.
            cls(batch=1, in_channels=3, height=6, width=5, out_channels=6, kernel=(3, 3), groups=3),
            cls(batch=1, in_channels=4, height=5, width=5, out_channels=8, kernel=(3, 3), groups=4),
        )  # fmt: skip


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
