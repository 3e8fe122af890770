"""Pooling over height and width."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from .registry import register
from .settings import FLOATS, Pair
from .shared.checks import SettingsError
from .shared.knobs import BATCH, Knob
from .shared.tir import TirFunction, extents
from .shared.torch_call import NotDescribedError, TorchCall, split_at_axes
from .shared.window import SlidingWindow

if TYPE_CHECKING:
    import numpy as np
    import torch

_MODES = {"pool_max": "max", "pool_sum": "avg"}
"""Mode by name of the anchor block."""

_ANY_POOL = re.compile(r"(adaptive_)?pool_")

_SLIDING = {"aten.max_pool2d_with_indices": "max", "aten.avg_pool2d": "avg"}
_ADAPTIVE = {"aten._adaptive_avg_pool2d": "avg", "aten.adaptive_max_pool2d": "max"}
"""Mode by ATen function."""


@register
@dataclass(frozen=True, kw_only=True)
class Pool2d(SlidingWindow):
    """Maximum or mean of each window, padding counted as zeros: data [batch, channels, height, width].

    With a kernel as large as the input it is global pooling.
    """

    operator: ClassVar[str] = "pool2d"
    random_networks = ("linear_stack", "searched_network")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding")
    layouts: ClassVar[tuple[str, ...]] = ("NCHW", "NHWC")
    modes: ClassVar[tuple[str, ...]] = ("max", "avg")
    calls: ClassVar[tuple[str, ...]] = (*_SLIDING, *_ADAPTIVE, "aten.mean")
    draw_order: ClassVar[int] = 12
    share: ClassVar[float] = 0.02
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("mode",)),
        Knob(("kernel",), (("mode",),)),
        Knob(("stride",), (("mode", "kernel"), ("kernel",))),
        Knob(("padding",), (("mode", "kernel"), ("kernel",))),
        Knob(("channels",), (("mode", "kernel"), ("kernel",))),
        Knob(("height", "width"), (("kernel", "channels"), ("kernel", "stride"))),
        BATCH,
    )

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

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        """Pooling without dilation; the reduction's loops are the window's rows and columns."""
        anchor = function.anchor
        if anchor.name_hint not in _MODES or len(anchor.reads[0].source.shape) != 4:
            return None
        data = anchor.reads[0]
        channels_first = data.region[1].min.same_as(anchor.iter_vars[1].var)
        layout = "NCHW" if channels_first else "NHWC"
        taps = anchor.iter_vars[4:]
        values = cls.read_window(layout, data, taps, function)
        if values is None or values.pop("dilation") != [1, 1]:
            return None
        channels = extents(data.source)[layout.index("C")]
        return values | {"channels": channels, "mode": _MODES[anchor.name_hint]}

    @classmethod
    def type_of(cls, function: TirFunction) -> str | None:
        """Pooling of other ranks, with dilation, uneven padding or windows of different sizes."""
        return "pool" if _ANY_POOL.match(function.anchor.name_hint) else None

    @classmethod
    def read_call(cls, call: TorchCall) -> Self | None:
        """Pooling calls, and means over all positions of an image."""
        data = call.args[0]
        if call.function == "aten.mean":
            return cls._global(data, "avg") if is_global_mean(call) else None
        if call.function in _SLIDING:
            pool = cls._sliding(call, _SLIDING[call.function])
        else:
            pool = cls._adaptive(call, _ADAPTIVE[call.function])
        output = call.output
        # A pool that rounds its output up has other windows than the settings say.
        if output is not None and output.dim() >= 4 and pool.output_size != tuple(output.shape[-2:]):
            raise NotDescribedError("pooling that rounds its output up")
        return pool

    @classmethod
    def _sliding(cls, call: TorchCall, mode: str) -> Self:
        data, kernel = call.args[:2]
        stride, padding = call.argument(2, ()), call.argument(3, 0)
        if mode == "max" and max(_pair(call.argument(4, 1))) > 1:
            raise NotDescribedError("dilated pooling")
        # Without a stride the windows lie side by side.
        return cls._of(data, mode, _pair(kernel), _pair(stride or kernel), _pair(padding))

    @classmethod
    def _adaptive(cls, call: TorchCall, mode: str) -> Self:
        data, pieces = call.args[:2]
        if any(extent % count for extent, count in zip(data.shape[-2:], pieces, strict=True)):
            raise NotDescribedError("adaptive pooling with windows of different sizes")
        height, width = (extent // count for extent, count in zip(data.shape[-2:], pieces, strict=True))
        return cls._of(data, mode, (height, width), (height, width), (0, 0))

    @classmethod
    def _global(cls, data: torch.Tensor, mode: str) -> Self:
        height, width = data.shape[2:]
        return cls._of(data, mode, (height, width), (1, 1), (0, 0))

    @classmethod
    def _of(cls, data: torch.Tensor, mode: str, kernel: Pair, stride: Pair, padding: Pair) -> Self:
        batch, channels, height, width = (1,) * (4 - data.dim()) + tuple(data.shape)
        if kernel == (height, width):
            stride = (1, 1)  # of a single window, as the default
        size: dict[str, Any] = {"batch": batch, "channels": channels, "height": height, "width": width}
        return cls(**size, kernel=kernel, stride=stride, padding=padding, mode=mode)

    @classmethod
    def most_padding(cls, kernel: int) -> int:
        return kernel // 2

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        return {**super().draw_uniform(rng, **drawn), "mode": str(rng.choice(cls.modes))}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(batch=2, channels=3, height=7, width=8, kernel=(3, 2), stride=(2, 1), padding=(1, 1)),
            cls(batch=2, channels=3, height=5, width=6, kernel=(5, 6), mode="avg"),
            cls(batch=1, channels=2, height=5, width=6, kernel=(5, 6), mode="avg"),
            cls(
                batch=1,
                channels=3,
                height=6,
                width=7,
                kernel=(3, 3),
                padding=(1, 1),
                mode="avg",
                layout="NHWC",
            ),
        )

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        from torch.nn.functional import avg_pool2d, max_pool2d

        pool: Any = {"max": max_pool2d, "avg": avg_pool2d}[self.mode]
        window = (self.kernel, self.stride, self.padding)
        if self.layout == "NCHW":
            return pool(inputs[0], *window)
        return pool(inputs[0].movedim(-1, 1), *window).movedim(1, -1)


def is_global_mean(call: TorchCall) -> bool:
    """Whether a call is a mean over all positions of an image, which is pooling."""
    data = call.args[0]
    if call.function != "aten.mean" or data.dim() != 4:
        return False
    _, reduced, inner = split_at_axes(data.shape, call.argument(1))
    return inner == 1 and reduced == data.shape[2] * data.shape[3]


def _pair(value: Any) -> Pair:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values[0], values[-1]
