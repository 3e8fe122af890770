"""Arrays of a recurrent layer's function, and loads and stores of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ..dynamic.nodes import number, store
from .layer import RecurrentLayer

DTYPE = "float32"


class RecurrentArrays:
    """Parameters and workspaces for some steps and sequences, which are numbers or variables."""

    def __init__(self, layer: RecurrentLayer, steps: Any, batch: Any) -> None:
        cell, directions, hidden = layer.cell, len(layer.backwards), layer.hidden
        state = [directions, batch, hidden]
        parts = range(2 if cell.has_memory else 1)
        self.shares = _array("shares", [steps, batch, directions * cell.gates * hidden])
        self.weight = _array("weight", layer.packed_shape)
        self.bias = _array("bias", [directions, hidden])
        self.first = [_array(f"first_{part}", state) for part in parts]
        self.series = _array("series", [steps, batch, directions * hidden])
        self.last = _array("last", state)
        self.states = [_array(f"state_{part}", [2, *state]) for part in parts]
        """Two halves of each part of the state: a step reads one and writes the other."""
        self.update, self.reset = (_array(name, state) for name in ("update", "reset"))
        """Update gate and reset state of a GRU with an early reset."""
        self.parameters = [
            *(self.shares, self.weight),
            *([self.bias] if cell.has_late_bias else []),
            *(*self.first, self.series, self.last),
        ]
        self.workspaces = [*self.states, *([self.update, self.reset] if cell.early_reset else [])]


def _array(name: str, shape: Sequence[Any]) -> Any:
    # TVM's lowering gives a function new variables, and leaves the old ones in the layouts of its arrays.
    return tirx.decl_buffer([number(extent) for extent in shape], DTYPE, name, scope="global", layout=None)


def load(array: Any, *at: Any) -> Any:
    """One element, or one lane of a vector."""
    return tirx.BufferLoad(array, [number(one) for one in at])


def copied(target: Any, at: Sequence[Any], source: Any, place: Sequence[Any]) -> Any:
    """Store of an element of another array."""
    return store(target, load(source, *place), at)
