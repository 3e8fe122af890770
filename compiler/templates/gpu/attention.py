"""Attention as one kernel: softmax(scale query key^T + mask) value for each batch and head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as every
from typing import ClassVar

from ....wording import counted
from ..cpu.attention.attention import Layout
from .launches import power_of_two
from .problem import ACTIVATIONS, DTYPE, DTYPES, NOTHING, GpuTemplateError, Problem
from .tiling import PROLOGUE, Gpu, Tiling

_EXPONENTIALS = 16
"""Of float32, a cycle and multiprocessor."""
_WIDEST = 256


def packed(batch: int, rows: int, heads: int, width: int, *, of: int = 1, number: int = 0) -> Layout:
    """Rows of all heads side by side, as a product writes them: [batch, rows, of, heads, width].

    `of` such arrays may lie side by side; this is the one with index `number`.
    """
    row = of * heads * width
    return Layout(batch * rows * row, number * heads * width, rows * row, width, row)


@dataclass(frozen=True, kw_only=True)
class Attention(Problem):
    """Attention of all heads of a layer."""

    kernel: ClassVar[str] = "attention"
    module: ClassVar[str] = "attention_kernel"
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPES)
    arguments: ClassVar[tuple[str, ...]] = ("query", "key", "value", "mask", "output")

    batch: int
    heads: int
    queries: int
    """Rows of the query."""
    keys: int
    """Rows of key and value."""
    width: int
    """Columns of one head."""
    scale: float
    """Factor of the scores."""
    layouts: tuple[Layout, Layout, Layout, Layout, Layout]
    """Of query, key, value, mask and output. One row of the mask has `keys` elements."""
    mask: str = NOTHING
    """Data type of the array that is added to the scores, or NOTHING."""
    bias: str = NOTHING

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width > _WIDEST:
            raise GpuTemplateError(
                f"width={self.width}: a block holds whole rows of a head, of up to {_WIDEST} columns"
            )

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.queries, self.width, self.keys

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"queries": self.queries, "keys": self.keys}

    @property
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        return {name: (of.size,) for name, of in zip(self.arguments, self.layouts, strict=True)}

    @property
    def _width(self) -> int:
        """Columns of a block, which products in tensor cores need."""
        return max(power_of_two(self.width), 16)

    def grid(self, tiling: Tiling) -> tuple[int, ...]:
        return -(-self.queries // tiling.block_m), self.batch * self.heads

    def constants(self, tiling: Tiling) -> dict[str, float]:
        strides = {
            f"{name}_{field.upper()}": getattr(layout, field)
            for name, layout in zip("QKVMO", self.layouts, strict=True)
            for field in ("start", "batch", "head", "row")
        }
        return {
            **{
                "HEADS": self.heads,
                "WIDTH": self.width,
                "SCALE": self.scale,
                "MASK": int(self.mask != NOTHING),
            },
            **strides,
            **{"BLOCK_M": tiling.block_m, "BLOCK_N": tiling.block_n, "BLOCK_D": self._width},
        }

    def tilings(self, gpu: Gpu) -> Iterator[Tiling]:
        """Blocks of queries and of keys whose scores and sums fill at most half of the registers."""
        value_bytes = 4 if self.dtype == "fp32" else 2
        for block_m, block_n, warps, stages in every((16, 32, 64, 128), (32, 64, 128), (4, 8), (2, 3)):
            tiling = Tiling(block_m, block_n, self._width, warps, stages)
            threads = 32 * warps
            held = block_m * (block_n + self._width) / threads
            small = block_m < 2 * max(self.queries, 16) and block_n < 2 * max(self.keys, 32)
            shared = (block_m + 2 * stages * block_n) * self._width * value_bytes
            if held <= 128 and small and shared <= gpu.shared_bytes and 16 * warps <= max(block_m, 64):
                yield tiling

    def cycles(self, tiling: Tiling, gpu: Gpu) -> float:
        """Waves of blocks. The longest of a step's products, exponentials and loads hides the others."""
        waves = math.ceil(math.prod(self.grid(tiling)) / gpu.processors)
        steps = math.ceil(self.keys / tiling.block_n)
        scores = tiling.block_m * tiling.block_n
        parts = (
            2 * scores * self._width / gpu.multiply_adds,
            scores / _EXPONENTIALS,
            2 * 2 * tiling.block_n * self._width / gpu.load_bytes,
        )
        step = max(parts) + (sum(parts) - max(parts)) / tiling.stages
        return waves * (steps * step + PROLOGUE)

    def title(self, tiling: Tiling) -> str:
        blocks = f"{tiling.block_m}x{tiling.block_n}"
        processes = f"{counted(tiling.warps, 'warp')}, {counted(tiling.stages, 'stage')}"
        return f"attention in blocks of {blocks}, {processes}"


@dataclass(frozen=True, kw_only=True)
class BackToBack(Problem):
    """Two products, the output of the first being the left matrix of the second (section 3.1.1)."""

    kernel: ClassVar[str] = "back_to_back"
    arguments: ClassVar[tuple[str, ...]] = (
        *("left", "first", "first_bias", "second", "second_bias", "output"),
    )

    m: int
    k: int
    middle: int
    n: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.bias, self.residual, self.output) != (DTYPE, NOTHING, DTYPE):
            raise GpuTemplateError(
                f"bias={self.bias}, residual={self.residual}, output={self.output}: two products back to "
                "back have arrays of one data type and no residual; compute them one after the other"
            )
        for name in ("middle", "n"):
            value = getattr(self, name)
            if value < 16 or value & (value - 1):
                raise GpuTemplateError(
                    f"{name}={value}: a block holds whole rows of both products, whose widths must be powers "
                    "of two of 16 or more; compute the products one after the other"
                )

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.m, self.middle, self.k

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"rows": self.m, "depth": self.k}

    @property
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        first, second = (self.k, self.middle), (self.middle, self.n)
        shapes = ((self.m, self.k), first, (self.middle,), second, (self.n,), (self.m, self.n))
        return dict(zip(self.arguments, shapes, strict=True))

    def grid(self, tiling: Tiling) -> tuple[int, ...]:
        return (-(-self.rows // tiling.block_m),)

    def constants(self, tiling: Tiling) -> dict[str, float]:
        blocks = {"BLOCK_M": tiling.block_m, "BLOCK_K": tiling.block_k}
        widths = {"MIDDLE": self.middle, "COLUMNS": self.n}
        return {**widths, "ACTIVATION": ACTIVATIONS[self.activation], **blocks}

    def fits(self, tiling: Tiling) -> bool:
        """A block holds whole rows of the first product."""
        return tiling.block_n == self.middle
