"""Base of operators that normalise each row of a matrix, and the epsilon of norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te

from ..settings import FLOATS, OperatorSettings
from .knobs import Knob

EPSILON = 1e-5
"""Number added to a variance: PyTorch's default."""


@dataclass(frozen=True, kw_only=True)
class OverRows(OperatorSettings):
    """Normalises each row of data [rows, columns]; `rows` is the product of all axes but the last."""

    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    knobs: ClassVar[tuple[Knob, ...]] = (Knob(("columns",)), Knob(("rows",), (("columns",),)))

    rows: int
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "columns")

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.columns}"

    def _data(self) -> te.Tensor:
        return te.placeholder((self.rows, self.columns), dtype=self.dtype, name="data")
