"""Costs of register tiles on one machine, and the file that keeps them.

A profile belongs to a device, a target and a TVM version. It is in the user's cache folder and not in a
tuning database: it holds for every network and database of the machine (Bolt, section 3.2.2).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.target import Target

from .....cache_folder import cache_folder
from ....hardware import Hardware
from ....instruction_sets import Instruction
from ....tvm_compat import target_to_json
from .sample_kernels import RegisterTile, sample_tiles

PROFILE_VERSION = 2
"""Version of the sample programs; profiles of another one are measured anew."""


@dataclass(frozen=True)
class TileCost:
    """Seconds of one register tile on one core."""

    start_s: float
    """To begin it and to store its sums."""
    near_s: float
    """Of a step of the reduction whose operands are in the first cache."""
    second_s: float
    """The same from the second cache."""
    far_s: float
    """The same from beyond it."""


class TileProfile:
    """Measured costs by register tile; those between measured rows are interpolated."""

    def __init__(self, costs: Mapping[str, TileCost]) -> None:
        """`costs` by `RegisterTile.name`."""
        self.costs = dict(costs)

    def has(self, instruction: Instruction) -> bool:
        """Whether all register tiles of an instruction were measured."""
        return all(tile.name in self.costs for tile in sample_tiles(instruction))

    def cost(self, tile: RegisterTile) -> TileCost:
        """Cost of a register tile, linear in its rows between measured ones.

        Raises KeyError if nothing of its width was measured.
        """
        rows: dict[int, TileCost] = {}
        for other in sample_tiles(tile.instruction):
            if (other.vectors, other.row_tiles) == (tile.vectors, tile.row_tiles):
                rows[other.rows] = self.costs[other.name]
        if not rows:
            raise KeyError(tile.name)
        measured = sorted(rows)
        columns = zip(*(astuple(rows[count]) for count in measured), strict=True)
        return TileCost(*(float(np.interp(tile.rows, measured, column)) for column in columns))

    def to_json(self) -> str:
        """Inverse of `from_json`."""
        costs = {name: astuple(cost) for name, cost in self.costs.items()}
        return json.dumps({"version": PROFILE_VERSION, "costs": costs}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> TileProfile:
        """Profile from the text of a file; raises ValueError for a damaged or an old one."""
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("version") != PROFILE_VERSION:
            raise ValueError(f"no profile of version {PROFILE_VERSION}")
        costs = content.get("costs")
        if not isinstance(costs, dict):
            raise ValueError("no costs")
        return cls({str(name): _checked(name, cost) for name, cost in costs.items()})


class TileProfiler(Protocol):
    """Source of measured costs."""

    def profile(self, instructions: Iterable[Instruction]) -> TileProfile | None:
        """Costs of all register tiles of these instructions, or None if they cannot be measured."""


def _checked(name: str, numbers: Any) -> TileCost:
    if (
        not isinstance(numbers, list)
        or len(numbers) != len(fields(TileCost))
        or not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        or numbers[0] < 0
        or min(numbers[1:]) <= 0
    ):
        raise ValueError(f"{name}: {numbers} is no cost")
    return TileCost(*map(float, numbers))


def profile_path(target: Target, hardware: Hardware) -> Path:
    """File of the profile of a device, a target and this version of TVM."""
    key = sha256(f"{target_to_json(target)} {tvm.__version__}".encode()).hexdigest()[:12]
    return cache_folder() / "register-tiles" / f"{hardware.hardware_id}-{key}.json"
