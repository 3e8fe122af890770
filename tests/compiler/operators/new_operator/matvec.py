"""Matrix-vector product: an operator of one module, which `test_new_operator.py` drops into the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te
from typing_extensions import Self

from .registry import register
from .settings import OperatorSettings
from .shared.epilogue import fuse
from .shared.knobs import Knob, epilogue_knob
from .shared.tir import TirFunction, extents
from .shared.torch_call import TorchCall
from .shared.uniform import LARGEST

if TYPE_CHECKING:
    import torch


def projections(rng: Any) -> Any:
    """Random network that projects a vector twice."""
    import torch

    class Projections(torch.nn.Module):
        def __init__(self, widths: list[int]) -> None:
            super().__init__()
            shapes = zip(widths[1:], widths, strict=False)
            self.matrices = torch.nn.ParameterList(torch.empty(shape) for shape in shapes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for matrix in self.matrices:
                x = torch.relu(torch.mv(matrix, x))
            return x

    widths = [int(width) for width in rng.integers(64, 2048, 3)]
    return Projections(widths), (torch.empty(widths[0]),)


@register
@dataclass(frozen=True, kw_only=True)
class MatVec(OperatorSettings):
    """Product of a matrix [rows, taps] and a vector [taps], with a bias [rows]."""

    operator: ClassVar[str] = "matvec"
    random_networks = (projections,)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "relu", "bias_relu")
    calls: ClassVar[tuple[str, ...]] = ("aten.mv",)
    share: ClassVar[float] = 0.01
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("taps",)),
        Knob(("rows",), (("taps",),)),
        epilogue_knob("taps"),
    )
    largest: ClassVar[Mapping[str, int]] = {**LARGEST, "taps": 4096}

    rows: int
    taps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "taps")

    def tensors(self) -> list[te.Tensor]:
        matrix = te.placeholder((self.rows, self.taps), dtype=self.dtype, name="matrix")
        vector = te.placeholder((self.taps,), dtype=self.dtype, name="vector")
        k, wide = te.reduce_axis((0, self.taps), name="k"), self.accumulator
        output = te.compute(
            (self.rows,),
            lambda row: te.sum(matrix[row, k].astype(wide) * vector[k].astype(wide), axis=k),
            name="matvec",
        )
        inputs, output = fuse(output, self.epilogue, (self.rows,))
        return [matrix, vector, *inputs, output]

    @property
    def op_pattern(self) -> int | None:
        return None

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.taps

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.taps}"

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        if function.anchor.name_hint != "matvec":
            return None
        matrix = function.anchor.reads[0].source
        rows, taps = extents(matrix)
        return {"rows": rows, "taps": taps, "dtype": str(matrix.dtype)}

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        rows, taps = call.args[0].shape
        return cls(rows=rows, taps=taps)

    @classmethod
    def typical(cls) -> tuple[Self, ...]:
        sizes = ((256, 64), (256, 1024), (512, 1024), (1000, 2048))
        return tuple(cls(rows=rows, taps=taps, epilogue="bias_relu") for rows, taps in sizes)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(rows=5, taps=7), cls(rows=1, taps=9, epilogue="relu")

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        matrix, vector = inputs
        return matrix @ vector
