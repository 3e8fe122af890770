"""Pooling over height and width."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from tvm import te, topi

from .settings import FLOATS, Pair, SettingsError
from .window import SlidingWindow


@dataclass(frozen=True, kw_only=True)
class Pool2d(SlidingWindow):
    """Maximum or mean of each window, padding counted as zeros: data [batch, channels, height, width].

    With a kernel as large as the input it is global pooling.
    """

    operator: ClassVar[str] = "pool2d"
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding")
    layouts: ClassVar[tuple[str, ...]] = ("NCHW", "NHWC")
    modes: ClassVar[tuple[str, ...]] = ("max", "avg")

    channels: int
    height: int
    width: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    mode: str = "max"
    layout: str = "NCHW"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "channels")
        self._check_choice("mode", self.modes)
        if any(2 * pad > extent for pad, extent in zip(self.padding, self.kernel, strict=True)):
            raise SettingsError(
                f"{self.operator}: padding={self.padding} of kernel={self.kernel}: pad by at most half "
                "of the kernel, or a window has no element"
            )

    @property
    def data_channels(self) -> int:
        return self.channels

    @property
    def flops(self) -> int:
        """One for each element of each window."""
        return self.batch * self.channels * prod(self.output_size) * prod(self.kernel)

    @property
    def label(self) -> str:
        return f"{super().label}_{self.mode}"

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        output = topi.nn.pool2d(
            data,
            kernel=self.kernel,
            stride=self.stride,
            dilation=(1, 1),
            padding=self.padding * 2,
            pool_type=self.mode,
            layout=self.layout,
            count_include_pad=True,
        )
        return [data, output]
