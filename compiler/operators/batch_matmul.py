"""Batch of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te
from typing_extensions import Self

from .registry import register
from .settings import OperatorSettings
from .shared.knobs import Knob
from .shared.matmul import TRANSPOSED, is_matmul, matmul
from .shared.tir import TirFunction, extents
from .shared.torch_call import TorchCall
from .shared.uniform import up_to

if TYPE_CHECKING:
    import numpy as np
    import torch

LARGEST_BATCH = 32
"""Largest batch of uniform draws."""


@register
@dataclass(frozen=True, kw_only=True)
class BatchMatmul(OperatorSettings):
    """One product per pair of matrices: [batch, rows, inner] x [batch, inner, columns], as in attention.

    With `transpose_right` the second is [batch, columns, inner], as the keys that attention's queries meet.
    """

    operator: ClassVar[str] = "batch_matmul"
    random_networks = ("transformer",)
    calls: ClassVar[tuple[str, ...]] = ("aten.bmm", "aten.baddbmm")
    draw_order: ClassVar[int] = 3
    share: ClassVar[float] = 0.08
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("rows",)),
        Knob(("inner",)),
        Knob(("columns",), (("rows",), ("inner",))),
        Knob(("batch",), (("rows", "inner"), ("rows",))),
        Knob(("transpose_right",), (("inner", "columns"), ("inner",))),
    )

    batch: int
    rows: int
    inner: int
    columns: int
    transpose_right: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "rows", "inner", "columns")
        self._check_choice("transpose_right", (False, True))

    def tensors(self) -> list[te.Tensor]:
        left = te.placeholder((self.batch, self.rows, self.inner), dtype=self.dtype, name="left")
        matrix = (self.columns, self.inner) if self.transpose_right else (self.inner, self.columns)
        right = te.placeholder((self.batch, *matrix), dtype=self.dtype, name="right")
        return [left, right, matmul(left, right, self.accumulator, self.transpose_right)]

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns

    @property
    def label(self) -> str:
        transposed = "_nt" if self.transpose_right else ""
        return f"{self.batch}x{self.rows}x{self.inner}x{self.columns}{transposed}"

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        """A product whose right matrix has a batch."""
        if not is_matmul(function):
            return None
        left, right = (read.source for read in function.anchor.reads)
        if len(right.shape) == 2:
            return None
        *batch, rows, columns = extents(function.anchor.writes[0].source)
        return {
            "batch": prod(batch),
            "rows": rows,
            "inner": extents(left)[-1],
            "columns": columns,
            "transpose_right": function.anchor.name_hint.startswith(TRANSPOSED),
            "dtype": str(left.dtype),
        }

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        left, right = call.args[:2] if call.function == "aten.bmm" else call.args[1:3]
        batch, rows, inner = left.shape
        columns = right.shape[2]
        # Attention stores keys one row per token; its product sees them through a transposed view.
        transposed = right.stride(1) == 1 and right.stride(2) >= inner > 1 and columns > 1
        return cls(batch=batch, rows=rows, inner=inner, columns=columns, transpose_right=transposed)

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        values = super().draw_uniform(rng, **drawn)
        return {**values, "batch": up_to(LARGEST_BATCH, rng), "transpose_right": bool(rng.integers(2))}

    def plain(self) -> Self:
        """A transposed right matrix does not change the shape."""
        return replace(super().plain(), transpose_right=False)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        product = cls(batch=3, rows=4, inner=5, columns=6)
        return product, replace(product, transpose_right=True)

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        left, right = inputs
        return left @ (right.transpose(1, 2) if self.transpose_right else right)
