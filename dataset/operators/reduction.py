"""Reductions of a matrix along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te, tirx, topi

from .settings import COMMUTATIVE_REDUCTION, FLOATS, OUT_ELEMENTWISE_FUSABLE, OperatorSettings, SettingsError


@dataclass(frozen=True, kw_only=True)
class Reduction(OperatorSettings):
    """Sum, maximum or mean of data [rows, columns] over axis 0, the rows, or 1, the columns of each row."""

    operator: ClassVar[str] = "reduction"
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    modes: ClassVar[tuple[str, ...]] = ("sum", "max", "mean")

    rows: int
    columns: int
    mode: str = "sum"
    axis: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "columns")
        self._check_choice("mode", self.modes)
        if self.axis not in (0, 1):
            raise SettingsError(
                f"{self.operator}: axis={self.axis!r}: use 0 for the rows or 1 for the columns"
            )

    @property
    def op_pattern(self) -> int | None:
        return OUT_ELEMENTWISE_FUSABLE if self.mode == "mean" else COMMUTATIVE_REDUCTION

    @property
    def flops(self) -> int:
        return self.rows * self.columns

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.columns}_{self.mode}_a{self.axis}"

    def tensors(self) -> list[te.Tensor]:
        data = te.placeholder((self.rows, self.columns), dtype=self.dtype, name="data")
        if self.mode == "max":
            return [data, topi.max(data, axis=[self.axis])]
        total = topi.sum(data, axis=[self.axis])
        if self.mode == "mean":
            total = topi.divide(total, tirx.const((self.rows, self.columns)[self.axis], "int32"))
        return [data, total]
