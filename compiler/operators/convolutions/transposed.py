"""Transposed convolutions in one and two dimensions: convolutions of data with zeros in between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from ..registry import register
from ..settings import Pair
from ..shared.checks import SettingsError
from ..shared.epilogue import fuse
from ..shared.knobs import BATCH, IN_CHANNELS, OUT_CHANNELS, WINDOW_EPILOGUE, Knob, size_knob, window_knobs
from ..shared.tir import TirFunction, extents, linear, per_axis
from ..shared.torch_call import NotDescribedError, TorchCall
from ..shared.window import SlidingWindow, kernel_layout, spatial_positions, tensor_shape
from .base import convolve_in_layout
from .convolution_call import CONVOLUTION, ConvolutionCall

if TYPE_CHECKING:
    import numpy as np
    import torch

_CHANNELS_LAST = re.compile(r"conv[12]d_transpose_(nw|nhw)c$")
"""Names of the reduction with channels last; with channels first TVM calls it `compute`."""


def transposed_knobs(*axes: str) -> tuple[Knob, ...]:
    """Order of the prior's draws for a transposed convolution over these axes."""
    window = window_knobs("output_padding", dilation=False)
    return (*window, IN_CHANNELS, OUT_CHANNELS, size_knob(*axes), BATCH, WINDOW_EPILOGUE)


@dataclass(frozen=True, kw_only=True)
class TransposedConvolution(SlidingWindow):
    """Neither grouped nor dilated. The bias has the output's channels and is 1 along its other axes."""

    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu")
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding", "output_padding")
    calls: ClassVar[tuple[str, ...]] = (CONVOLUTION,)
    folds_batch_norm: ClassVar[bool] = True

    in_channels: int
    out_channels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "in_channels", "out_channels")

    @property
    def data_channels(self) -> int:
        return self.in_channels

    @property
    def output_size(self) -> tuple[int, ...]:
        """(input - 1) * stride - 2 * padding + kernel + output_padding along each axis."""
        windows = (self.window(name) for name in ("stride", "padding", "kernel", "output_padding"))
        return tuple(
            (size - 1) * stride - 2 * padding + kernel + extra
            for size, stride, padding, kernel, extra in zip(self.input_size, *windows, strict=True)
        )

    @property
    def flops(self) -> int:
        """Operations of the naive loop nest, which multiplies the zeros between the elements too."""
        outputs = self.batch * self.out_channels * prod(self.output_size)
        return 2 * outputs * self.in_channels * prod(self.window("kernel"))

    @property
    def label(self) -> str:
        return f"{super().label}_f{self.out_channels}"

    def tensors(self) -> list[te.Tensor]:
        data, kernel = self._data(), self.window("kernel")
        first = self.layout.startswith("NC")
        weights = kernel_layout(self.layout).replace("OI", "IO") if first else kernel_layout(self.layout)
        weight_shape = tensor_shape(weights, kernel, I=self.in_channels, O=self.out_channels)
        weight = te.placeholder(weight_shape, dtype=self.dtype, name="weight")
        output = self._channels_first(data, weight) if first else self._channels_last(data, weight)
        inputs, output = fuse(output, self.epilogue, self._bias_shape(self.out_channels))
        return [data, weight, *inputs, output]

    def _channels_first(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        """The compute that Relax lowers to."""
        compute = {1: topi.nn.group_conv1d_transpose_ncw, 2: topi.nn.group_conv2d_transpose_nchw}
        window = [list(self.window(name)) for name in ("stride", "padding", "output_padding")]
        stride, padding, output_padding = window
        # One padding per axis and side: TVM takes one number for a symmetric window only with a single axis.
        return compute[len(self.axes)](
            data, weight, stride, padding * 2, self.accumulator, output_padding, groups=1
        )

    def _channels_last(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        """Convolution of the dilated data with the turned weight, which TVM's library lacks."""
        kernel, padding = self.window("kernel"), self.window("padding")
        before = [extent - 1 - pad for extent, pad in zip(kernel, padding, strict=True)]
        after = [pad + extra for pad, extra in zip(before, self.window("output_padding"), strict=True)]
        dilated = topi.nn.dilate(data, [1, *self.window("stride"), 1], name="data_dilate")
        padded = topi.nn.pad(dilated, [0, *before, 0], [0, *after, 0], name="data_pad")
        taps = [te.reduce_axis((0, extent), name=f"k{i}") for i, extent in enumerate(kernel)]
        channel = te.reduce_axis((0, self.in_channels), name="rc")

        def product(batch: te.Var, *indices: te.Var) -> te.PrimExpr:
            *position, out_channel = indices
            touched = [start + tap for start, tap in zip(position, taps, strict=True)]
            turned = [extent - 1 - tap for extent, tap in zip(kernel, taps, strict=True)]
            element = padded(batch, *touched, channel).astype(self.accumulator)
            return te.sum(
                element * weight(*turned, channel, out_channel).astype(self.accumulator),
                axis=[*taps, channel],
            )

        shape = tensor_shape(self.layout, self.output_size, N=self.batch, C=self.out_channels)
        name = f"conv{len(self.axes)}d_transpose_{self.layout.lower()}"
        return te.compute(shape, product, name=name)

    def _check_window(self) -> None:
        kernel, padding, stride, extra, output = (
            *(self.window(name) for name in ("kernel", "padding", "stride", "output_padding")),
            self.output_size,
        )
        problem = ""
        if any(pad >= extent for pad, extent in zip(padding, kernel, strict=True)):
            problem = f"padding={padding} of kernel={kernel}: it must be smaller than the kernel"
        elif any(more >= step for more, step in zip(extra, stride, strict=True)):
            problem = f"output_padding={extra} of stride={stride}: it must be smaller than the stride"
        elif min(output) < 1:
            problem = f"padding={padding} leaves an output of {output}: use less padding or a larger input"
        if problem:
            raise SettingsError(f"{self.operator}: {problem}")

    def _bridge_values(self, other: Self) -> dict[str, Any]:
        """The smaller stride stays: without zeros between the elements, it is an ordinary convolution."""
        values = super()._bridge_values(other)
        stride = list(map(min, self.window("stride"), other.window("stride")))
        # output = (input - 1) * stride - 2 * padding + kernel + output_padding
        parts = [
            divmod(output + 2 * padding - kernel, step)
            for output, padding, kernel, step in zip(
                map(min, self.output_size, other.output_size),
                map(min, self.window("padding"), other.window("padding")),
                map(min, self.window("kernel"), other.window("kernel")),
                stride,
                strict=True,
            )
        ]
        return values | {
            "stride": self._per_axis(stride),
            "output_padding": self._per_axis([extra for _, extra in parts]),
            **{name: steps + 1 for name, (steps, _) in zip(self.axes, parts, strict=True)},
        }

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        """From the shapes of the data, of the dilated and of the padded data."""
        anchor, blocks = function.anchor, function.blocks
        if not {"data_dilate", "data_pad"} <= blocks.keys() or "kernel_dilate" in blocks:
            return None
        dilate, pad = blocks["data_dilate"], blocks["data_pad"]
        buffers = (dilate.reads[0].source, dilate.writes[0].source, pad.writes[0].source)
        data = buffers[0]
        if len(data.shape) != len(cls.axes) + 2:
            return None
        layout = cls.layouts[bool(_CHANNELS_LAST.match(anchor.name_hint))]
        channels = layout.index("C")
        if layout.startswith("NC"):
            turned = blocks.get("kernel_transform") or blocks["kernel"]
            _, weight_out, *kernel = extents(turned.reads[0].source)
        else:
            *kernel, _, weight_out = extents(anchor.reads[1].source)
        out_channels = extents(anchor.writes[0].source)[channels]
        if weight_out != out_channels:  # a grouped convolution's weight has the output channels of one group
            return None
        positions = spatial_positions(layout)
        sizes, dilated, padded = ([extents(buffer)[i] for i in positions] for buffer in buffers)
        before = [-linear(pad.reads[0].region[i].min, pad.iter_vars[i])[1] for i in positions]
        window: dict[str, list[int]] = {"kernel": kernel, "stride": [], "padding": [], "output_padding": []}
        for axis, extent in enumerate(kernel):
            gaps = sizes[axis] - 1
            window["stride"].append((dilated[axis] - 1) // gaps if gaps else 1)
            window["padding"].append(extent - 1 - before[axis])
            window["output_padding"].append(padded[axis] - dilated[axis] - 2 * before[axis])
        return {
            "batch": extents(data)[0],
            "in_channels": extents(data)[channels],
            **dict(zip(cls.axes, sizes, strict=True)),
            "out_channels": out_channels,
            **{name: per_axis(values) for name, values in window.items()},
            "layout": layout,
            "dtype": str(data.dtype),
        }

    @classmethod
    def read_call(cls, call: TorchCall) -> Self | None:
        conv = ConvolutionCall(call)
        if not conv.transposed:
            return None
        if len(conv.size) == 3 or conv.groups > 1 or max(conv.dilation) > 1:
            raise NotDescribedError("grouped, dilated or 3-D transposed convolution")
        if len(conv.size) != len(cls.axes):
            return None
        values = conv.fields(cls.axes)
        del values["groups"], values["dilation"]
        return cls(**values)

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        return {**super().draw_uniform(rng, **drawn), "output_padding": int(rng.integers(2))}

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        from torch.nn import functional

        convolve: Any = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d}[len(self.axes)]
        window: dict[str, Any] = {name: self.window(name) for name in self.window_fields[1:]}
        return convolve_in_layout(self.layout, convolve, inputs, transposed=True, **window)


@register
@dataclass(frozen=True, kw_only=True)
class TransposedConv1d(TransposedConvolution):
    """Data [batch, in_channels, length], weight [in_channels, out_channels, kernel].

    For NWC the weight is [kernel, in_channels, out_channels].
    """

    operator: ClassVar[str] = "conv1d_transpose"
    random_networks = ("sequence_network",)
    axes: ClassVar[tuple[str, ...]] = ("length",)
    layouts: ClassVar[tuple[str, ...]] = ("NCW", "NWC")
    draw_order: ClassVar[int] = 14
    share: ClassVar[float] = 0.01
    knobs: ClassVar[tuple[Knob, ...]] = transposed_knobs("length")

    length: int
    kernel: int
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    layout: str = "NCW"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(
                batch=2, in_channels=3, length=5, out_channels=4, kernel=4, stride=3, padding=1,
                output_padding=1,
            ),
        )  # fmt: skip


@register
@dataclass(frozen=True, kw_only=True)
class TransposedConv2d(TransposedConvolution):
    """Data [batch, in_channels, height, width], weight [in_channels, out_channels, kh, kw].

    For NHWC the weight is [kh, kw, in_channels, out_channels].
    """

    operator: ClassVar[str] = "conv2d_transpose"
    random_networks = ("decoder",)
    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    layouts: ClassVar[tuple[str, ...]] = ("NCHW", "NHWC")
    draw_order: ClassVar[int] = 6
    share: ClassVar[float] = 0.03
    knobs: ClassVar[tuple[Knob, ...]] = transposed_knobs("height", "width")

    height: int
    width: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    output_padding: Pair = (0, 0)
    layout: str = "NCHW"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(
                batch=2, in_channels=3, height=4, width=5, out_channels=2, kernel=(3, 4), stride=(2, 3),
                padding=(1, 2), output_padding=(1, 2),
            ),
        )  # fmt: skip
