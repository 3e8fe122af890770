"""A recurrent layer on a CPU: extents of its register tiles, and its weights in panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dynamic.prediction import panel_widths
from .cell import Cell

_CHAINS, _MOST_VECTORS = 8, 4
"""Sums of a sequence in a tile at most, which wait for their last multiply-add, and vectors of a gate."""


_CACHE_BYTES = 1 << 20
"""Bytes of a core's second cache that weights may fill."""


@dataclass(frozen=True)
class RecurrentLayer:
    """One recurrent layer, in all of its directions."""

    cell: Cell
    backwards: tuple[bool, ...]
    """For each direction, whether it starts at the last step."""
    hidden: int
    """Units of the state."""
    lanes: int
    """Elements of a vector register."""
    registers: int
    cores: int = 1

    @property
    def one_by_one(self) -> bool:
        """Whether directions run one after another, so that the weights of one stay in the second cache."""
        weights = 4 * self.cell.gates * self.hidden**2
        return len(self.backwards) > 1 and len(self.backwards) * weights > self.cores * _CACHE_BYTES

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return panel_widths(self.hidden, self.lanes)[0]

    @property
    def vectors(self) -> int:
        """Vectors of each gate in a panel."""
        gates = self.cell.gates
        fitting = (self.registers - 1) // gates // 2  # of one sequence, and as many of weights
        return max(1, min(_CHAINS // gates, _MOST_VECTORS, fitting, self.hidden // self.width))

    @property
    def units(self) -> int:
        """Hidden units of a panel."""
        return self.width * self.vectors

    @property
    def panels(self) -> int:
        """Panels of each direction."""
        return -(-self.hidden // self.units)

    @property
    def rows(self) -> int:
        """Sequences of a tile at most: sums, an element of each state and one vector are in registers."""
        return max(1, (self.registers - 1) // (self.cell.gates * self.vectors + 1))

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """Shape of `packed`."""
        return len(self.backwards), self.panels, self.hidden, self.cell.gates, self.units

    def packed(self, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """Recurrent weights [direction, gates * hidden, hidden] as [direction, panel, hidden, gate, unit]."""
        apart = weight.reshape(len(self.backwards), self.cell.gates, self.hidden, self.hidden)
        starts = np.minimum(np.arange(self.panels) * self.units, self.hidden - self.units)
        chosen = apart[:, :, starts[:, None] + np.arange(self.units)]
        return np.ascontiguousarray(np.transpose(chosen, (0, 2, 4, 1, 3)))
