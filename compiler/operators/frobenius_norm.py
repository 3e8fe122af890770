"""Frobenius norm of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tvm import te, topi
from typing_extensions import Self

from .registry import register
from .settings import FLOATS, OperatorSettings
from .shared.knobs import Knob
from .shared.torch_call import NotDescribedError, TorchCall, split_at_axes

if TYPE_CHECKING:
    import torch


@register
@dataclass(frozen=True, kw_only=True)
class FrobeniusNorm(OperatorSettings):
    """Root of the sum of squares of each matrix: [batch, rows, columns] -> [batch]."""

    operator: ClassVar[str] = "frobenius_norm"
    random_networks = ("transformer",)
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    calls: ClassVar[tuple[str, ...]] = ("aten.linalg_vector_norm",)
    draw_order: ClassVar[int] = 18
    share: ClassVar[float] = 0.005
    knobs: ClassVar[tuple[Knob, ...]] = (Knob(("rows", "columns")), Knob(("batch",)))

    batch: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "rows", "columns")

    @property
    def op_pattern(self) -> int | None:
        return None

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.columns

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.rows}x{self.columns}"

    def tensors(self) -> list[te.Tensor]:
        data = te.placeholder((self.batch, self.rows, self.columns), dtype=self.dtype, name="data")
        row, column = te.reduce_axis((0, self.rows), "i"), te.reduce_axis((0, self.columns), "j")
        squares = te.compute(
            (self.batch,),
            lambda b: te.sum(data[b, row, column] * data[b, row, column], axis=[row, column]),
            name="sum_of_squares",
        )
        return [data, topi.sqrt(squares)]

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        data, order = call.args[0], call.argument(1, 2)
        outer, reduced, inner = split_at_axes(data.shape, call.argument(2))
        if order != 2 or inner > 1:
            raise NotDescribedError("norm of another order or over another axis than the last")
        columns = data.shape[-1]
        return cls(batch=outer, rows=reduced // columns, columns=columns)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(batch=3, rows=4, columns=5),)

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        return torch.linalg.matrix_norm(inputs[0])
