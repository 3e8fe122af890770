"""Bases of convolutions over one, two or three axes, channels first or last."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import gcd, prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from ..settings import Pair, Triple
from ..shared.checks import SettingsError
from ..shared.epilogue import fuse
from ..shared.tir import TirFunction, extents
from ..shared.torch_call import TorchCall
from ..shared.uniform import LARGEST_GROUPS, up_to
from ..shared.window import SlidingWindow, kernel_layout, tensor_shape
from .convolution_call import CONVOLUTION, ConvolutionCall

if TYPE_CHECKING:
    import numpy as np
    import torch

_ANCHOR = re.compile(r"(?:group_)?conv[123]d_(n[cdhw]+)$")
"""Names of the reduction of a convolution in TVM, with the layout of the data."""


@dataclass(frozen=True, kw_only=True)
class Convolution(SlidingWindow):
    """Data in `layout`; the weight, in the matching layout, has in_channels / groups input channels.

    The bias has the output's channels and is 1 along its other axes; the residual of an `add` step has the
    output's shape.
    """

    packable: ClassVar[bool] = True
    folds_batch_norm: ClassVar[bool] = True
    calls: ClassVar[tuple[str, ...]] = (CONVOLUTION,)

    in_channels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "in_channels")

    @classmethod
    @abstractmethod
    def has_channels(cls, in_channels: int, out_channels: int, groups: int) -> bool:
        """Whether a convolution of these channels and groups is this operator's, and not a relative's."""

    @property
    def data_channels(self) -> int:
        return self.in_channels

    @property
    @abstractmethod
    def filters(self) -> int:
        """Channels of the output."""

    @property
    def group_count(self) -> int:
        """Number of groups of channels, each convolved apart from the others."""
        return 1

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weights, kernel = kernel_layout(self.layout), self.window("kernel")
        weight_shape = tensor_shape(weights, kernel, O=self.filters, I=self.in_channels // self.group_count)
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

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        layout, channels = cls._read_channels(function)
        if not channels:
            return None
        # The reduction runs over the channel and the window, in the layout's order.
        reduction = function.anchor.iter_vars[len(layout) :]
        taps = reduction[1:] if layout.startswith("NC") else reduction[:-1]
        values = cls.read_window(layout, function.anchor.reads[0], taps, function)
        return None if values is None else values | _own_fields(cls, channels)

    @classmethod
    def type_of(cls, function: TirFunction) -> str | None:
        """Convolutions whose padding no settings have."""
        return cls.operator if cls._read_channels(function)[1] else super().type_of(function)

    @classmethod
    def _read_channels(cls, function: TirFunction) -> tuple[str, dict[str, int]]:
        """Layout of the data, and channels and groups; none of these for another operator."""
        match = _ANCHOR.match(function.anchor.name_hint)
        layout = match.group(1).upper() if match else ""
        if layout not in cls.layouts:
            return layout, {}
        data, weight = (extents(region.source) for region in function.anchor.reads)
        by_letter = dict(zip(kernel_layout(layout), weight, strict=True))
        in_channels, out_channels = data[layout.index("C")], by_letter["O"]
        groups = in_channels // by_letter["I"]
        if not cls.has_channels(in_channels, out_channels, groups):
            return layout, {}
        return layout, {"in_channels": in_channels, "out_channels": out_channels, "groups": groups}

    @classmethod
    def read_call(cls, call: TorchCall) -> Self | None:
        conv = ConvolutionCall(call)
        if conv.transposed or len(conv.size) != len(cls.axes):
            return None
        if not cls.has_channels(conv.in_channels, conv.out_channels, conv.groups):
            return None
        return cls(**_own_fields(cls, conv.fields(cls.axes)))

    def _bridge_values(self, other: Self) -> dict[str, Any]:
        """Loops run over the input channels of one group."""
        values = super()._bridge_values(other)
        if "groups" in values:
            values["groups"] = gcd(self.group_count, other.group_count)
            of_group = min(of.in_channels // of.group_count for of in (self, other))
            values["in_channels"] = values["groups"] * of_group
        return values

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        from torch.nn import functional

        convolve: Any = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[len(self.axes)]
        window: dict[str, Any] = {name: self.window(name) for name in ("stride", "padding", "dilation")}
        return convolve_in_layout(self.layout, convolve, inputs, groups=self.group_count, **window)


@dataclass(frozen=True, kw_only=True)
class FilteringConvolution(Convolution):
    """A convolution with a number of filters of its own."""

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

    def _check_groups(self, groups: int, smallest: int) -> None:
        self._check_at_least(smallest, "groups")
        channels = (self.in_channels, self.out_channels)
        if any(count % groups for count in channels):
            raise SettingsError(
                f"{self.operator}: groups={groups} does not divide the {channels[0]} channels in and the "
                f"{channels[1]} out: use a common divisor"
            )


@dataclass(frozen=True, kw_only=True)
class ImageConvolution(Convolution):
    """Convolution over height and width: weights are OIHW for NCHW and HWIO for NHWC."""

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
class VolumeConvolution(FilteringConvolution):
    """Convolution over a volume or video: data [batch, in_channels, depth, height, width].

    Weights are OIDHW for NCDHW and DHWIO for NDHWC.
    """

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


def draw_groups(largest: int, rng: np.random.Generator) -> dict[str, int]:
    """Two or more groups, and numbers of channels up to `largest` that they divide."""
    groups = int(rng.integers(2, LARGEST_GROUPS, endpoint=True))
    most = largest // groups
    return {"groups": groups, **{name: groups * up_to(most, rng) for name in ("in_channels", "out_channels")}}


def convolve_in_layout(
    layout: str,
    convolve: Callable[..., torch.Tensor],
    inputs: Sequence[torch.Tensor],
    transposed: bool = False,
    **options: Any,
) -> torch.Tensor:
    """PyTorch's convolution, which has channels first, of data and weight in the given layout."""
    data, weight = inputs
    if layout.startswith("NC"):
        return convolve(data, weight, **options)
    # HWIO to OIHW, or to IOHW if the convolution is transposed.
    spatial = range(weight.dim() - 2)
    channels = (-2, -1) if transposed else (-1, -2)
    output = convolve(data.movedim(-1, 1), weight.permute(*channels, *spatial), **options)
    return output.movedim(1, -1)


def _own_fields(cls: type[SlidingWindow], values: dict[str, Any]) -> dict[str, Any]:
    """Values of the fields that the operator has."""
    names = {field.name for field in fields(cls)}
    return {name: value for name, value in values.items() if name in names}
