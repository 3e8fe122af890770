"""Layer normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from .registry import register
from .shared.rows import EPSILON, OverRows
from .shared.tir import TirFunction, extents
from .shared.torch_call import TorchCall

if TYPE_CHECKING:
    import torch


@register
@dataclass(frozen=True, kw_only=True)
class LayerNorm(OverRows):
    """(x - mean) / sqrt(variance + 1e-5) * weight + bias of each row; weight and bias are [columns].

    Sums are float32 for float16 too, as in PyTorch and Relax.
    """

    operator: ClassVar[str] = "layer_norm"
    random_networks = ("transformer",)
    marker: ClassVar[str] = "T_layer_norm"
    counts_as_tvm: ClassVar[bool] = False
    calls: ClassVar[tuple[str, ...]] = ("aten.native_layer_norm",)
    draw_order: ClassVar[int] = 10
    share: ClassVar[float] = 0.015

    @property
    def flops(self) -> int:
        """Three per element for the sums of it and of its square, eight to normalise it.

        The naive loop nest derives the mean and variance from the sums at each element again.
        """
        return 11 * self.rows * self.columns

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weight, bias = (te.placeholder((self.columns,), self.dtype, name) for name in ("weight", "bias"))
        return [data, weight, bias, topi.nn.layer_norm(data, weight, bias, axis=[1], epsilon=EPSILON)]

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any]:
        block = function.blocks[cls.marker]
        data, bias = block.writes[0].source, block.reads[-1].source
        columns = prod(extents(bias))
        return {"rows": prod(extents(data)) // columns, "columns": columns, "dtype": str(data.dtype)}

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        data, normalised = call.args[:2]
        columns = prod(normalised)
        return cls(rows=data.numel() // columns, columns=columns)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(rows=5, columns=8),)

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        from torch.nn.functional import layer_norm

        data, weight, bias = inputs
        return layer_norm(data, [self.columns], weight, bias)
