"""What every parameterised operator shares: validated settings that build a TIR function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeAlias

from tvm import te
from tvm.tirx import PrimFunc
from typing_extensions import Self

from ...errors import UserError
from ..tvm_compat import with_layout_free

Pair: TypeAlias = tuple[int, int]
"""Height and width of a kernel, stride, padding or dilation."""

Triple: TypeAlias = tuple[int, int, int]
"""Depth, height and width of a kernel, stride, padding or dilation."""

DTYPES = ("float32", "float16", "int8")
FLOATS = ("float32", "float16")

INTEGER_STEPS = {"none", "bias", "add", "relu"}
"""Steps of an epilogue that mean the same on the 32-bit sums of an int8 operator as on real numbers."""

COMMUTATIVE_REDUCTION, OUT_ELEMENTWISE_FUSABLE = 3, 4
"""Relax's patterns of operators: a plain reduction, and any other that element-wise operations may follow."""


COUNTS = {2: "two", 3: "three"}


class SettingsError(UserError, ValueError):
    """Settings that describe no operator."""


@dataclass(frozen=True, kw_only=True)
class OperatorSettings(ABC):
    """Settings of one operator. They build the same TIR as a network's import through Relax gives."""

    operator: ClassVar[str]
    epilogues: ClassVar[tuple[str, ...]] = ("none",)
    dtypes: ClassVar[tuple[str, ...]] = DTYPES

    packable: ClassVar[bool] = False
    """Whether there is a `weight`, a constant in a network, that a reduction reads as it is."""

    epilogue: str = "none"
    dtype: str = "float32"
    prepack: bool = False
    """Whether a program may choose the layout of its weight, as `networks.to_relax` lets those for CPUs."""

    def __post_init__(self) -> None:
        self._check_choice("epilogue", self.epilogues)
        self._check_choice("dtype", self.dtypes)
        self._check_choice("prepack", (False, True) if self.packable else (False,))
        if self.dtype == "int8" and not INTEGER_STEPS.issuperset(self.epilogue.split("_")):
            raise SettingsError(
                f"{self.operator}: epilogue={self.epilogue!r} of dtype='int8': use steps of "
                f"{', '.join(sorted(INTEGER_STEPS))}, or a floating-point dtype"
            )

    @abstractmethod
    def tensors(self) -> list[te.Tensor]:
        """Inputs in the order of the function's arguments, then the output."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Two per multiply-add of the naive loop nest; padding and epilogue are not counted."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name of the shape, for logs and task names."""

    @property
    def op_pattern(self) -> int | None:
        """Relax's pattern of the operator without an epilogue; None where Relax has none for it."""
        return OUT_ELEMENTWISE_FUSABLE

    @property
    def accumulator(self) -> str:
        """Data type of sums and of the output: that of the inputs, int32 for int8.

        So float16 sums in float16, as Relax legalises it; PyTorch sums in float32 and rounds once.
        """
        return "int32" if self.dtype == "int8" else self.dtype

    def prim_func(self) -> PrimFunc:
        """The operator with its epilogue as one TIR function."""
        # Relax indexes with 64 bits and leaves its fusion pattern on a function that fuses nothing. Without
        # either, a task would not have the hash of the same task of a network.
        tensors = self.tensors()
        func = te.create_prim_func(tensors, index_dtype_override="int64")
        if self.prepack:
            func = with_layout_free(func, [i for i, t in enumerate(tensors) if t.op.name == "weight"])
        if self.epilogue != "none" or self.op_pattern is None:
            return func
        return func.with_attr("op_pattern", self.op_pattern)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values by field, pairs as lists; `prepack` only where it is true, as `describe` does."""
        values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        if not values["prepack"]:
            del values["prepack"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_dict` wrote; raises SettingsError."""
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise SettingsError(f"{cls.operator}: no setting {', '.join(unknown)}; it has {', '.join(known)}")
        try:
            return cls(**values)
        except TypeError as error:  # a missing field
            raise SettingsError(f"{cls.operator}: {error}; it needs {', '.join(known)}") from error

    def _check_choice(self, field: str, choices: tuple[Any, ...]) -> None:
        value = getattr(self, field)
        if value not in choices:
            raise SettingsError(
                f"{self.operator}: {field}={value!r}: use one of {', '.join(map(str, choices))}"
            )

    def _check_at_least(self, smallest: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise SettingsError(
                    f"{self.operator}: {name}={value!r}: give a whole number of at least {smallest}"
                )

    def _set_extents(self, smallest: int, axes: int, *names: str) -> None:
        """Accepts one whole number for all axes, or a sequence of one an axis, which it stores as a tuple.

        The setting of a single axis stays a number.
        """
        if axes == 1:
            self._check_at_least(smallest, *names)
            return
        for name in names:
            value = getattr(self, name)
            extents = (value,) * axes if isinstance(value, int) else tuple(value or ())
            whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= smallest for v in extents)
            if len(extents) != axes or not whole:
                raise SettingsError(
                    f"{self.operator}: {name}={value!r}: give one or {COUNTS[axes]} whole numbers of at "
                    f"least {smallest}"
                )
            object.__setattr__(self, name, extents)
