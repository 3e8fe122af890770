"""3-D convolutions: ungrouped and grouped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.epilogue import first_steps
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
from .base import VolumeConvolution, draw_groups

if TYPE_CHECKING:
    import numpy as np


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


@register
@dataclass(frozen=True, kw_only=True)
class GroupConv3d(VolumeConvolution):
    """Grouped: weight [out_channels, in_channels / groups, kd, kh, kw].

    With as many groups as channels it is depthwise, as in CSN (Tran et al., ICCV 2019).
    """

    operator: ClassVar[str] = "group_conv3d"
    random_networks = ("separated_video_network",)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu")
    made_of: ClassVar[str] = Conv3d.operator
    draw_order: ClassVar[int] = 8
    share: ClassVar[float] = 0.005
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(),
        IN_CHANNELS,
        Knob(("groups",), (("in_channels",), ("kernel",))),
        GROUPED_OUT_CHANNELS,
        size_knob("depth", "height", "width"),
        BATCH,
        WINDOW_EPILOGUE,
    )

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_groups(self.groups, smallest=2)

    @property
    def group_count(self) -> int:
        return self.groups

    @classmethod
    def has_channels(cls, in_channels: int, out_channels: int, groups: int) -> bool:
        return groups > 1

    @classmethod
    def derive(cls, other: Conv3d) -> Self | None:
        """The convolution channel by channel, as in CSN (section 3.3).

        None unless it has a window and keeps the number of channels.
        """
        if max(other.kernel) == 1 or not 1 < other.in_channels == other.out_channels:
            return None
        return cls(
            batch=other.batch,
            in_channels=other.in_channels,
            depth=other.depth,
            height=other.height,
            width=other.width,
            out_channels=other.out_channels,
            kernel=other.kernel,
            stride=other.stride,
            padding=other.padding,
            dilation=other.dilation,
            groups=other.in_channels,
            epilogue=first_steps(other.epilogue, cls.epilogues),
        )

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        return {**super().draw_uniform(rng, **drawn), **draw_groups(cls.largest["in_channels"], rng)}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(
                batch=1, in_channels=4, depth=4, height=5, width=6, out_channels=6, kernel=(2, 3, 1),
                stride=(1, 1, 2), padding=(1, 0, 0), groups=2,
            ),
            # Depthwise over a video, as in channel-separated networks.
            cls(
                batch=1, in_channels=3, depth=3, height=5, width=4, out_channels=3, kernel=(3, 3, 3),
                groups=3,
            ),
            cls(
                batch=1, in_channels=3, depth=2, height=4, width=5, out_channels=3, kernel=(2, 2, 2),
                groups=3,
            ),
        )  # fmt: skip
