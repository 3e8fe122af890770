"""Problems whose output's rows are normalised: a product followed by layer norm, and rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ....wording import counted
from .launches import power_of_two, row_warps
from .problem import DTYPES, NOTHING, GpuTemplateError, Problem, Product
from .tiling import Gpu, Tiling, row_cycles

NORMS: Mapping[str, int] = {"layer": 1, "softmax": 2}
"""Normalisations of rows by the number that the kernel takes."""

WIDEST = 16384
"""Columns of the widest row that a block keeps in registers."""


def _check_width(columns: int) -> None:
    if columns > WIDEST:
        raise GpuTemplateError(
            f"n={columns}: a block holds a whole row, of up to {WIDEST} columns; use other layers' templates"
        )


@dataclass(frozen=True, kw_only=True)
class NormedProduct(Product):
    """Matrix product with bias and residual, and the layer norm of each row of their sum.

    The product's blocks write float32 sums, or parts of them, which a second kernel adds and normalises.
    """

    arguments: ClassVar[tuple[str, ...]] = (
        *("left", "right", "bias", "residual", "scale", "shift", "output"),
    )

    epsilon: float
    """Added to the variance."""
    scale: str = "fp32"
    """Data type of the factor of each column."""
    shift: str = "fp32"
    """Data type of the final offset of each column."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_width(self.n)

    @property
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        output, columns = (self.m, self.n), (self.n,)
        shapes = ((self.m, self.k), (self.k, self.n), columns, output, columns, columns, output)
        return dict(zip(self.arguments, shapes, strict=True))

    def workspace(self, tiling: Tiling) -> tuple[int, ...]:
        return tiling.parts, self.m, self.n

    @property
    def _norm(self) -> tuple[int, float]:
        return NORMS["layer"], self.epsilon

    def title(self, tiling: Tiling) -> str:
        return f"{super().title(tiling)}, layer norm"


@dataclass(frozen=True, kw_only=True)
class Rows(Problem):
    """Rows alone: layer norm or softmax of each row, after a bias and a residual are added."""

    kernel: ClassVar[str] = "rows_of_parts"
    module: ClassVar[str] = "row_kernels"
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPES)
    arguments: ClassVar[tuple[str, ...]] = ("data", "bias", "residual", "scale", "shift", "output")

    m: int
    n: int
    norm: str = "layer"
    """One of NORMS."""
    epsilon: float = 0.0
    bias: str = NOTHING
    scale: str = "fp32"
    """Data type of the factor of each column; NOTHING for softmax, as for `shift`."""
    shift: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm not in NORMS:
            raise GpuTemplateError(f"norm={self.norm}: use one of {', '.join(NORMS)}")
        if (self.norm == "softmax") != (self.scale == self.shift == NOTHING):
            raise GpuTemplateError(
                f"norm={self.norm}, scale={self.scale}, shift={self.shift}: "
                "layer norm has both, softmax neither"
            )
        _check_width(self.n)

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.m, self.n, self.n

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"rows": self.m, "columns": self.n}

    @property
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        whole, columns = (self.m, self.n), (self.n,)
        return dict(zip(self.arguments, (whole, columns, whole, columns, columns, whole), strict=True))

    @property
    def _norm(self) -> tuple[int, float]:
        return NORMS[self.norm], self.epsilon

    def grid(self, tiling: Tiling) -> tuple[int, ...]:
        return self.m, 1

    def constants(self, tiling: Tiling) -> dict[str, float]:
        norm, epsilon = self._norm
        return {
            **{"PARTS": 1, **self._epilogue},
            **{"NORM": norm, "EPSILON": epsilon, "BLOCK_N": tiling.block_n},
        }

    def tilings(self, gpu: Gpu) -> Iterator[Tiling]:
        """A block has one row, for which there is nothing to choose but the number of warps."""
        width = power_of_two(self.n)
        usual = row_warps(width)
        for warps in (usual, usual // 2, usual * 2):
            if 1 <= warps <= 16 and width >= 32 * warps:
                yield Tiling(1, width, 1, warps, 1)
        if width < 32 * usual // 2:
            yield Tiling(1, width, 1, 1, 1)

    def cycles(self, tiling: Tiling, gpu: Gpu) -> float:
        """Reading the rows; a thread with other than 16 values takes somewhat longer."""
        uneven = abs(tiling.warps - row_warps(tiling.block_n))
        return row_cycles(self.m, self.n, 4, gpu) + uneven

    def title(self, tiling: Tiling) -> str:
        return f"{self.norm} of rows, {counted(tiling.warps, 'warp')}"
