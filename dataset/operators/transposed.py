"""Transposed convolutions: convolutions over data with zeros between its elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from tvm import te, topi

from .epilogue import fuse
from .settings import Pair, SettingsError
from .window import SlidingWindow, kernel_layout, shape_of


@dataclass(frozen=True, kw_only=True)
class _TransposedConvolution(SlidingWindow):
    """Neither grouped nor dilated. The bias has the output's channels and is 1 along its other axes."""

    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu")
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding", "output_padding")

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
        """As of the naive loop nest, which multiplies the zeros between the elements too."""
        outputs = self.batch * self.out_channels * prod(self.output_size)
        return 2 * outputs * self.in_channels * prod(self.window("kernel"))

    @property
    def label(self) -> str:
        return f"{super().label}_f{self.out_channels}"

    def tensors(self) -> list[te.Tensor]:
        data, kernel = self._data(), self.window("kernel")
        first = self.layout.startswith("NC")
        weights = kernel_layout(self.layout).replace("OI", "IO") if first else kernel_layout(self.layout)
        weight_shape = shape_of(weights, kernel, I=self.in_channels, O=self.out_channels)
        weight = te.placeholder(weight_shape, dtype=self.dtype, name="weight")
        output = self._channels_first(data, weight) if first else self._channels_last(data, weight)
        inputs, output = fuse(output, self.epilogue, self._bias_shape(self.out_channels))
        return [data, weight, *inputs, output]

    def _channels_first(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        """The compute that Relax lowers to."""
        compute = {1: topi.nn.group_conv1d_transpose_ncw, 2: topi.nn.group_conv2d_transpose_nchw}
        window = [list(self.window(name)) for name in ("stride", "padding", "output_padding")]
        stride, padding, output_padding = window
        # One padding an axis and side: one number would mean a symmetric window to a single axis only.
        return compute[len(self.axes)](
            data, weight, stride, padding * 2, self.accumulator, output_padding, groups=1
        )

    def _channels_last(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        """A convolution of the dilated data with the weight turned round; TVM's library has none."""
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

        shape = shape_of(self.layout, self.output_size, N=self.batch, C=self.out_channels)
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


@dataclass(frozen=True, kw_only=True)
class TransposedConv2d(_TransposedConvolution):
    """Data [batch, in_channels, height, width], weight [in_channels, out_channels, kh, kw].

    For NHWC the weight is [kh, kw, in_channels, out_channels].
    """

    operator: ClassVar[str] = "conv2d_transpose"
    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    layouts: ClassVar[tuple[str, ...]] = ("NCHW", "NHWC")

    height: int
    width: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    output_padding: Pair = (0, 0)
    layout: str = "NCHW"


@dataclass(frozen=True, kw_only=True)
class TransposedConv1d(_TransposedConvolution):
    """Data [batch, in_channels, length], weight [in_channels, out_channels, kernel].

    For NWC the weight is [kernel, in_channels, out_channels].
    """

    operator: ClassVar[str] = "conv1d_transpose"
    axes: ClassVar[tuple[str, ...]] = ("length",)
    layouts: ClassVar[tuple[str, ...]] = ("NCW", "NWC")

    length: int
    kernel: int
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    layout: str = "NCW"
