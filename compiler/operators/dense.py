"""Linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te
from typing_extensions import Self

from .registry import register
from .settings import OperatorSettings
from .shared.epilogue import fuse
from .shared.knobs import Knob, epilogue_knob
from .shared.matmul import is_matmul, matmul
from .shared.tir import TirFunction, extents
from .shared.torch_call import TorchCall

if TYPE_CHECKING:
    import torch


@register
@dataclass(frozen=True, kw_only=True)
class Dense(OperatorSettings):
    """Linear layer: data [rows, in_features], weight [in_features, out_features], bias [out_features].

    PyTorch keeps the weight transposed; import folds the transpose of a constant, so tasks have it this way.
    `rows` is the product of a network's batch and sequence length.
    """

    operator: ClassVar[str] = "dense"
    random_networks = ("transformer", "transformer", "linear_stack")
    packable: ClassVar[bool] = True
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_gelu", "bias_add", "relu")
    calls: ClassVar[tuple[str, ...]] = ("aten.mm", "aten.addmm")
    called_on_flattened: ClassVar[bool] = True
    draw_order: ClassVar[int] = 2
    share: ClassVar[float] = 0.13
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("rows",)),
        Knob(("in_features",)),
        Knob(("out_features",), (("in_features",),)),
        epilogue_knob("in_features", "out_features"),
    )

    rows: int
    in_features: int
    out_features: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "in_features", "out_features")

    def tensors(self) -> list[te.Tensor]:
        data = te.placeholder((self.rows, self.in_features), dtype=self.dtype, name="data")
        weight = te.placeholder((self.in_features, self.out_features), dtype=self.dtype, name="weight")
        inputs, output = fuse(matmul(data, weight, self.accumulator), self.epilogue, (self.out_features,))
        return [data, weight, *inputs, output]

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.in_features * self.out_features

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.in_features}x{self.out_features}"

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        """A product whose right matrix has no batch."""
        if not is_matmul(function):
            return None
        left, right = (read.source for read in function.anchor.reads)
        if len(right.shape) != 2:
            return None
        *rows, columns = extents(function.anchor.writes[0].source)
        return {
            "rows": prod(rows),
            "in_features": extents(left)[-1],
            "out_features": columns,
            "dtype": str(left.dtype),
        }

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        bias = call.args[0] if call.function == "aten.addmm" else None
        data, weight = call.args[:2] if bias is None else call.args[1:3]
        rows, in_features = data.shape
        epilogue = "bias" if bias is not None and bias.dim() == 1 else "none"
        return cls(rows=rows, in_features=in_features, out_features=weight.shape[1], epilogue=epilogue)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(rows=5, in_features=7, out_features=6),)

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        data, weight = inputs
        return data @ weight
