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

Pair: TypeAlias = tuple[int, int]
"""Height and width of a kernel, stride, padding or dilation."""

OUT_ELEMENTWISE_FUSABLE = 4
"""Relax's pattern of an operator that element-wise operations may follow."""

DTYPES = ("float32", "float16")


class SettingsError(UserError, ValueError):
    """Settings that describe no operator."""


@dataclass(frozen=True, kw_only=True)
class OperatorSettings(ABC):
    """Settings of one operator. They build the same TIR as a network's import through Relax gives."""

    operator: ClassVar[str]
    epilogues: ClassVar[tuple[str, ...]]

    epilogue: str = "none"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        self._check_choice("epilogue", self.epilogues)
        self._check_choice("dtype", DTYPES)

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

    def prim_func(self) -> PrimFunc:
        """The operator with its epilogue as one TIR function."""
        # Relax indexes with 64 bits and leaves its fusion pattern on a function that fuses nothing. Without
        # either, a task would not have the hash of the same task of a network.
        func = te.create_prim_func(self.tensors(), index_dtype_override="int64")
        return func.with_attr("op_pattern", OUT_ELEMENTWISE_FUSABLE) if self.epilogue == "none" else func

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values by field, pairs as lists."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}

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

    def _check_choice(self, field: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, field)
        if value not in choices:
            raise SettingsError(f"{self.operator}: {field}={value!r}: use one of {', '.join(choices)}")

    def _check_at_least(self, smallest: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise SettingsError(
                    f"{self.operator}: {name}={value!r}: give a whole number of at least {smallest}"
                )

    def _set_pair(self, smallest: int, *names: str) -> None:
        """Accepts one whole number for both directions, or a sequence of two; stores a tuple."""
        for name in names:
            value = getattr(self, name)
            pair = (value, value) if isinstance(value, int) else tuple(value or ())
            whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= smallest for v in pair)
            if len(pair) != 2 or not whole:
                raise SettingsError(
                    f"{self.operator}: {name}={value!r}: give one or two whole numbers of at least {smallest}"
                )
            object.__setattr__(self, name, pair)
