"""Kernels that a template launches, each with its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

Array = TypeVar("Array")

WORKSPACE = "workspace"
"""Name of the float32 array that kernels of one template hand each other."""

COLUMNS = 1024
"""Columns of a block that adds parts, unless it needs whole rows."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One kernel that a template launches."""

    kernel: str
    """Name of the kernel."""
    arguments: tuple[str, ...]
    """Array that is passed for each pointer: one of the problem's or WORKSPACE."""
    sizes: Mapping[str, int]
    """Arguments that are numbers, in order."""
    constants: Mapping[str, float]
    """Constants that the kernel is compiled with."""
    grid: tuple[int, ...]
    warps: int
    stages: int = 1
    module: str = "kernels"
    """Module of this folder that defines the kernel."""

    def passed(self, arrays: Mapping[str, Array]) -> list[Array]:
        """Arrays for `arguments`. The output stands for one that is not there, which no kernel reads."""
        return [arrays.get(name, arrays["output"]) for name in self.arguments]


def power_of_two(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


def row_warps(width: int) -> int:
    """Warps of a block that holds a row of so many columns: 4 to 16, with 16 values a thread between."""
    return min(max(width // (32 * 16), 4), 16)
