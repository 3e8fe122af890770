"""Transposed 2-D convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Self

from ..registry import register
from ..settings import Pair
from ..shared.knobs import Knob
from .transposed import TransposedConvolution, transposed_knobs


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
