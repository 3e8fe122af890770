"""Convolutions over [batch, channels, height, width]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te, topi

from .epilogue import fuse
from .settings import OperatorSettings, Pair, SettingsError


@dataclass(frozen=True, kw_only=True)
class _Convolution(OperatorSettings):
    """Checks and sizes that the two convolutions share."""

    batch: int
    in_channels: int
    height: int
    width: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "in_channels", "height", "width")
        self._set_pair(1, "kernel", "stride", "dilation")
        self._set_pair(0, "padding")
        for axis, name in enumerate(("height", "width")):
            span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
            padded = getattr(self, name) + 2 * self.padding[axis]
            if span > padded:
                raise SettingsError(
                    f"{self.operator}: kernel={self.kernel} with dilation={self.dilation} spans {span} along "
                    f"{name}, the padded input has {padded}: use a smaller kernel or a larger input"
                )

    @property
    def output_size(self) -> Pair:
        """Height and width of the output."""
        height, width = (
            (extent + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for extent, kernel, stride, pad, dilation in zip(
                (self.height, self.width), self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )
        return height, width

    @property
    def label(self) -> str:
        def text(pair: Pair) -> str:
            return f"{pair[0]}" if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"

        parts = f"k{text(self.kernel)}_s{text(self.stride)}_p{text(self.padding)}_d{text(self.dilation)}"
        return f"{self.batch}x{self.in_channels}x{self.height}x{self.width}_{parts}"

    def _data(self) -> te.Tensor:
        return te.placeholder(
            (self.batch, self.in_channels, self.height, self.width), dtype=self.dtype, name="data"
        )


@dataclass(frozen=True, kw_only=True)
class Conv2d(_Convolution):
    """Ungrouped: data [batch, in_channels, height, width], weight [out_channels, in_channels, kh, kw].

    The bias is [1, out_channels, 1, 1]; the residual of an `add` step has the output's shape.
    """

    operator: ClassVar[str] = "conv2d"
    epilogues: ClassVar[tuple[str, ...]] = (
        "none",
        "bias",
        "bias_relu",
        "bias_relu6",
        "bias_add",
        "bias_add_relu",
    )

    out_channels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "out_channels")

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weight = te.placeholder(
            (self.out_channels, self.in_channels, *self.kernel), dtype=self.dtype, name="weight"
        )
        output = topi.nn.conv2d_nchw(data, weight, self.stride, self.padding, self.dilation)
        inputs, output = fuse(output, self.epilogue, (1, self.out_channels, 1, 1))
        return [data, weight, *inputs, output]

    @property
    def flops(self) -> int:
        outputs = self.batch * self.out_channels * self.output_size[0] * self.output_size[1]
        return 2 * outputs * self.in_channels * self.kernel[0] * self.kernel[1]

    @property
    def label(self) -> str:
        return f"{super().label}_o{self.out_channels}"


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2d(_Convolution):
    """One filter a channel: data [batch, in_channels, height, width], weight [in_channels, 1, kh, kw]."""

    operator: ClassVar[str] = "depthwise_conv2d"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_relu6")

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weight = te.placeholder((self.in_channels, 1, *self.kernel), dtype=self.dtype, name="weight")
        # Relax lowers every grouped convolution, depthwise ones too, to this compute.
        output = topi.nn.group_conv2d_nchw(
            data, weight, self.stride, self.padding, self.dilation, groups=self.in_channels
        )
        inputs, output = fuse(output, self.epilogue, (1, self.in_channels, 1, 1))
        return [data, weight, *inputs, output]

    @property
    def flops(self) -> int:
        outputs = self.batch * self.in_channels * self.output_size[0] * self.output_size[1]
        return 2 * outputs * self.kernel[0] * self.kernel[1]
