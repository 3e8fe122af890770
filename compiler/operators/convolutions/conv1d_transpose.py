"""Transposed 1-D convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Self

from ..registry import register
from ..shared.knobs import Knob
from .transposed import TransposedConvolution, transposed_knobs


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
