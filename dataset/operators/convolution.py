"""Convolutions over one, two or three axes, channels first or last."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from tvm import te, topi

from .epilogue import fuse
from .settings import Pair, SettingsError, Triple
from .window import SlidingWindow, kernel_layout, shape_of


@dataclass(frozen=True, kw_only=True)
class _Convolution(SlidingWindow):
    """Data in `layout`; the weight, in the layout that goes with it, has in_channels / groups input channels.

    The bias has the output's channels and is 1 along its other axes; the residual of an `add` step has the
    output's shape.
    """

    packable: ClassVar[bool] = True

    in_channels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "in_channels")

    @property
    def data_channels(self) -> int:
        return self.in_channels

    @property
    @abstractmethod
    def filters(self) -> int:
        """Channels of the output."""

    @property
    def group_count(self) -> int:
        """Groups of channels that are convolved apart from each other."""
        return 1

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weights, kernel = kernel_layout(self.layout), self.window("kernel")
        weight_shape = shape_of(weights, kernel, O=self.filters, I=self.in_channels // self.group_count)
        weight = te.placeholder(weight_shape, dtype=self.dtype, name="weight")
        # Relax lowers every convolution, grouped and depthwise ones too, to this compute.
        output = topi.nn.conv(
            data,
            weight,
            self.window("stride"),
            self.window("padding"),
            self.window("dilation"),
            self.group_count,
            self.layout,
            weights,
            self.accumulator,
        )
        inputs, output = fuse(output, self.epilogue, self._bias_shape(self.filters))
        return [data, weight, *inputs, output]

    @property
    def flops(self) -> int:
        outputs = self.batch * self.filters * prod(self.output_size)
        return 2 * outputs * (self.in_channels // self.group_count) * prod(self.window("kernel"))


@dataclass(frozen=True, kw_only=True)
class _Filtering(_Convolution):
    """A convolution with as many filters as it is told."""

    out_channels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "out_channels")

    @property
    def filters(self) -> int:
        return self.out_channels

    @property
    def label(self) -> str:
        groups = f"_g{self.group_count}" if self.group_count > 1 else ""
        return f"{super().label}_o{self.out_channels}{groups}"


@dataclass(frozen=True, kw_only=True)
class _ImageConvolution(_Convolution):
    """Over height and width: weights are OIHW for NCHW and HWIO for NHWC."""

    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    layouts: ClassVar[tuple[str, ...]] = ("NCHW", "NHWC")

    height: int
    width: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    layout: str = "NCHW"


@dataclass(frozen=True, kw_only=True)
class Conv2d(_ImageConvolution, _Filtering):
    """Ungrouped: data [batch, in_channels, height, width], weight [out_channels, in_channels, kh, kw]."""

    operator: ClassVar[str] = "conv2d"
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


@dataclass(frozen=True, kw_only=True)
class GroupConv2d(_ImageConvolution, _Filtering):
    """Grouped: weight [out_channels, in_channels / groups, kh, kw].

    With one input channel a group and several filters, it is depthwise with a channel multiplier.
    """

    operator: ClassVar[str] = "group_conv2d"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_relu6", "bias_gelu")

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_groups(self, self.groups, smallest=2)
        if self.groups == self.in_channels == self.out_channels:
            raise SettingsError(
                f"{self.operator}: groups={self.groups} of as many channels in and out is depthwise: use "
                f"{DepthwiseConv2d.operator}"
            )

    @property
    def group_count(self) -> int:
        return self.groups


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2d(_ImageConvolution):
    """One filter a channel: data [batch, in_channels, height, width], weight [in_channels, 1, kh, kw]."""

    operator: ClassVar[str] = "depthwise_conv2d"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_relu6", "bias_gelu")

    @property
    def filters(self) -> int:
        return self.in_channels

    @property
    def group_count(self) -> int:
        return self.in_channels


@dataclass(frozen=True, kw_only=True)
class Conv1d(_Filtering):
    """Data [batch, in_channels, length], weight [out_channels, in_channels / groups, kernel].

    For NWC the weight is [kernel, in_channels / groups, out_channels].
    """

    operator: ClassVar[str] = "conv1d"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_gelu", "bias_add", "add")
    axes: ClassVar[tuple[str, ...]] = ("length",)
    layouts: ClassVar[tuple[str, ...]] = ("NCW", "NWC")

    length: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    layout: str = "NCW"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_groups(self, self.groups, smallest=1)

    @property
    def group_count(self) -> int:
        return self.groups


@dataclass(frozen=True, kw_only=True)
class _VolumeConvolution(_Filtering):
    """Over a volume or video: data [batch, in_channels, depth, height, width], weight OIDHW, or DHWIO."""

    axes: ClassVar[tuple[str, ...]] = ("depth", "height", "width")
    layouts: ClassVar[tuple[str, ...]] = ("NCDHW", "NDHWC")

    depth: int
    height: int
    width: int
    kernel: Triple
    stride: Triple = (1, 1, 1)
    padding: Triple = (0, 0, 0)
    dilation: Triple = (1, 1, 1)
    layout: str = "NCDHW"


@dataclass(frozen=True, kw_only=True)
class Conv3d(_VolumeConvolution):
    """Ungrouped: weight [out_channels, in_channels, kd, kh, kw]."""

    operator: ClassVar[str] = "conv3d"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_add", "bias_add_relu")


@dataclass(frozen=True, kw_only=True)
class GroupConv3d(_VolumeConvolution):
    """Grouped: weight [out_channels, in_channels / groups, kd, kh, kw].

    With as many groups as channels it is depthwise, as in CSN (Tran et al., ICCV 2019).
    """

    operator: ClassVar[str] = "group_conv3d"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu")

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_groups(self, self.groups, smallest=2)

    @property
    def group_count(self) -> int:
        return self.groups


def _check_groups(convolution: Conv1d | GroupConv2d | GroupConv3d, groups: int, smallest: int) -> None:
    convolution._check_at_least(smallest, "groups")
    channels = (convolution.in_channels, convolution.out_channels)
    if any(count % groups for count in channels):
        raise SettingsError(
            f"{convolution.operator}: groups={groups} does not divide the {channels[0]} channels in and the "
            f"{channels[1]} out: use a common divisor"
        )
