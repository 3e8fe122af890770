"""Softmax over the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from .registry import register
from .shared.rows import OverRows
from .shared.tir import TirFunction, extents
from .shared.torch_call import NotDescribedError, TorchCall

if TYPE_CHECKING:
    import torch


@register
@dataclass(frozen=True, kw_only=True)
class Softmax(OverRows):
    """exp(x - max(x)) / sum(exp(x - max(x))) of each row."""

    operator: ClassVar[str] = "softmax"
    random_networks = ("transformer",)
    marker: ClassVar[str] = "T_softmax_maxelem"
    counts_as_tvm: ClassVar[bool] = False
    calls: ClassVar[tuple[str, ...]] = ("aten._softmax",)
    draw_order: ClassVar[int] = 9
    share: ClassVar[float] = 0.02

    @property
    def flops(self) -> int:
        """A maximum, difference, sum and quotient of each element; the exponential is left out."""
        return 4 * self.rows * self.columns

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        return [data, topi.nn.softmax(data, axis=-1)]

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        maximum = function.blocks[cls.marker]
        data = maximum.reads[0]
        if not data.region[-1].min.same_as(maximum.iter_vars[-1].var):  # over another axis than the last
            return None
        *outer, columns = extents(data.source)
        return {"rows": prod(outer), "columns": columns, "dtype": str(data.source.dtype)}

    @classmethod
    def type_of(cls, function: TirFunction) -> str | None:
        """Softmax over any axis, and its relatives in TVM's operator library."""
        return cls.operator if any("softmax" in name for name in function.blocks) else None

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        data, axis = call.args[:2]
        if axis % data.dim() != data.dim() - 1:
            raise NotDescribedError("softmax over another axis than the last")
        columns = data.shape[-1]
        return cls(rows=data.numel() // columns, columns=columns)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(rows=5, columns=7),)

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        return inputs[0].softmax(-1)
