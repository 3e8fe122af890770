"""Reductions of a matrix along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, tirx, topi
from typing_extensions import Self

from .pool2d import is_global_mean
from .registry import register
from .settings import COMMUTATIVE_REDUCTION, FLOATS, OUT_ELEMENTWISE_FUSABLE, OperatorSettings
from .shared.checks import SettingsError
from .shared.knobs import Knob
from .shared.torch_call import NotDescribedError, TorchCall, split_at_axes

if TYPE_CHECKING:
    import numpy as np
    import torch

_CALLED_MODES = {"aten.mean": "mean", "aten.sum": "sum", "aten.amax": "max"}
"""Mode by ATen function."""


@register
@dataclass(frozen=True, kw_only=True)
class Reduction(OperatorSettings):
    """Sum, maximum or mean of data [rows, columns] over axis 0, the rows, or 1, the columns of each row."""

    operator: ClassVar[str] = "reduction"
    random_networks = ("transformer", "video_network")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    modes: ClassVar[tuple[str, ...]] = ("sum", "max", "mean")
    calls: ClassVar[tuple[str, ...]] = tuple(_CALLED_MODES)
    draw_order: ClassVar[int] = 13
    share: ClassVar[float] = 0.02
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("mode",)),
        Knob(("axis",)),
        Knob(("columns",), (("mode", "axis"), ("axis",))),
        Knob(("rows",), (("axis", "columns"), ("axis",))),
    )

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

    @classmethod
    def read_call(cls, call: TorchCall) -> Self | None:
        """Reductions of the first or last axes."""
        if is_global_mean(call):  # pool2d
            return None
        mode = _CALLED_MODES[call.function]
        outer, reduced, inner = split_at_axes(call.args[0].shape, call.argument(1))
        if inner == 1:
            return cls(rows=outer, columns=reduced, mode=mode, axis=1)
        if outer == 1:
            return cls(rows=reduced, columns=inner, mode=mode, axis=0)
        raise NotDescribedError("reduction over an axis in the middle")

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        values = super().draw_uniform(rng, **drawn)
        return {**values, "mode": str(rng.choice(cls.modes)), "axis": int(rng.integers(2))}

    def enlarged(self, batch: int) -> Self:
        """A reduction of the rows stays unchanged: of a batch it would reduce the axis in the middle."""
        return self if self.axis == 0 else replace(self, rows=self.rows * batch)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(rows=5, columns=7),
            *(cls(rows=4, columns=6, mode=mode, axis=0) for mode in cls.modes),
        )

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        reduce: Any = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[self.mode]
        return reduce(inputs[0], dim=self.axis)
