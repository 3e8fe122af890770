"""Register tile of a recurrent layer's step: the gates of some hidden units for some sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ..dynamic.nodes import allocated, local, loop, sequence, store, unrolled, vector
from .activations import activated
from .arrays import DTYPE, RecurrentArrays, load
from .cell import GRU, LSTM
from .layer import RecurrentLayer

_UNROLLED = (4, 2, 1)
"""Terms of a sum in a row without a branch; the first number that divides the hidden units."""

_CANDIDATE = 2
"""Gate of a GRU that a reset concerns."""

_Value = Callable[[Any, Any], Any]
"""Value of an element by the lane in its vector and the hidden unit."""


@dataclass(frozen=True)
class PanelPlace:
    """A panel at one step."""

    step: Any
    """Number of the step in the order of the computation."""
    direction: Any
    panel: Any
    unit: Any
    """First hidden unit."""
    time: Any
    """Number of the step in the arrays."""


class RecurrentTile:
    """Gates of one panel for some sequences, whose sums are in registers."""

    def __init__(
        self,
        layer: RecurrentLayer,
        arrays: RecurrentArrays,
        place: PanelPlace,
        gates: Sequence[int],
        height: int,
    ) -> None:
        self.layer, self.cell, self.arrays = layer, layer.cell, arrays
        self.place, self.gates, self.height = place, gates, height
        shape = [height, len(gates), layer.vectors, layer.width]
        self.sums, self.kept = (local(shape, DTYPE, name) for name in ("sums", "kept"))
        self.old, self.new = place.step % 2, (place.step + 1) % 2

    def statement(self, row: Any) -> Any:
        """Statement for the sequences from `row` on."""
        hidden = self.layer.hidden
        again = next(count for count in _UNROLLED if hidden % count == 0)

        def terms(at: Any) -> Any:
            return unrolled("again", again, lambda inner: self._added(row, at * again + inner))

        # The sums are read from the stack afterwards, in a loop that keeps the code short.
        body = sequence(
            self._in_order(lambda *at: store(self.sums, self._start(row, *at), at)),
            loop("depth", hidden // again, terms),
            self._in_order(lambda *at: store(self.kept, load(self.sums, *at), at)),
            loop("line", self.height, lambda line: self._finished(line, row + line)),
        )
        return allocated([self.sums, self.kept], body)

    def _in_order(self, statement: Callable[[int, int, int, Any], Any]) -> Any:
        """The statement of a line, a gate, a vector and a lane for all of them."""

        def vectors(line: int, gate: int, part: int) -> Any:
            return vector(self.layer.width, lambda lane: statement(line, gate, part, lane))

        return sequence(
            *(
                vectors(line, gate, part)
                for line in range(self.height)
                for gate in range(len(self.gates))
                for part in range(self.layer.vectors)
            )
        )

    def _start(self, row: Any, line: int, gate: int, part: int, lane: Any) -> Any:
        """First value of a sum: the share of the input, or the bias of a product that is reset."""
        unit = self.place.unit + part * self.layer.width + lane
        if self.cell.has_late_bias and self.gates[gate] == _CANDIDATE:
            return load(self.arrays.bias, self.place.direction, unit)
        return self._share(self.gates[gate], row + line, unit)

    def _share(self, gate: int, row: Any, unit: Any) -> Any:
        """Share of the input in a gate."""
        column = (self.place.direction * self.cell.gates + gate) * self.layer.hidden + unit
        return load(self.arrays.shares, self.place.time, row, column)

    def _state(self, row: Any, unit: Any, part: int = 0) -> Any:
        """State before the step."""
        return load(self.arrays.states[part], self.old, self.place.direction, row, unit)

    def _added(self, row: Any, depth: Any) -> Any:
        """Statement that adds the terms of one unit of the state to all sums."""
        place, arrays = self.place, self.arrays
        is_reset = self.cell.early_reset and self.gates[0] == _CANDIDATE

        def statement(line: int, gate: int, part: int, lane: Any) -> Any:
            state = (
                load(arrays.reset, place.direction, row + line, depth)
                if is_reset
                else self._state(row + line, depth)
            )
            column = part * self.layer.width + lane
            weight = load(arrays.weight, place.direction, place.panel, depth, self.gates[gate], column)
            at = [line, gate, part, lane]
            return store(self.sums, load(self.sums, *at) + state * weight, at)

        return self._in_order(statement)

    def _finished(self, line: Any, row: Any) -> Any:
        """Statement that stores what follows from the sums of one sequence."""
        compute = {LSTM: self._lstm, GRU: self._gru}.get(self.cell.kind, self._rnn)
        return sequence(
            *(one for part in range(self.layer.vectors) for one in compute(_Vector(self, line, row, part)))
        )

    def _rnn(self, at: _Vector) -> list[Any]:
        return at.new_state(lambda lane, _: self._active(0, at.sums(0, lane)))

    def _lstm(self, at: _Vector) -> list[Any]:
        """Memory, then the state that reads it."""

        def memory(lane: Any, unit: Any) -> Any:
            enter = self._active(0, at.sums(0, lane))
            leave = tirx.const(1, DTYPE) - enter if self.cell.coupled else self._active(0, at.sums(1, lane))
            candidate = self._active(1, at.sums(2, lane))
            return leave * self._state(at.row, unit, 1) + enter * candidate

        def state(lane: Any, unit: Any) -> Any:
            new = load(self.arrays.states[1], self.new, self.place.direction, at.row, unit)
            # ONNX Runtime does not clip the memory.
            return self._active(0, at.sums(3, lane)) * activated(self.cell.activations[2], new)

        return [
            at.stored(self.arrays.states[1], lambda unit: at.state_place(self.new, unit), memory),
            *at.new_state(state),
        ]

    def _gru(self, at: _Vector) -> list[Any]:
        """The state; with an early reset, first the update gate and the reset state, then the state."""

        def plain(unit: Any) -> list[Any]:
            return [self.place.direction, at.row, unit]

        def mixed(update: Any, candidate: Any, unit: Any) -> Any:
            return (tirx.const(1, DTYPE) - update) * candidate + update * self._state(at.row, unit)

        def late(lane: Any, unit: Any) -> Any:
            reset, update = (self._active(0, at.sums(gate, lane)) for gate in (0, 1))
            share = self._share(_CANDIDATE, at.row, unit)
            return mixed(update, self._active(1, share + reset * at.sums(_CANDIDATE, lane)), unit)

        if not self.cell.early_reset:
            return at.new_state(late)
        arrays = self.arrays
        if self.gates[0] != _CANDIDATE:
            reset = at.stored(
                arrays.reset,
                plain,
                lambda lane, unit: self._active(0, at.sums(0, lane)) * self._state(at.row, unit),
            )
            return [reset, at.stored(arrays.update, plain, lambda lane, _: self._active(0, at.sums(1, lane)))]
        return at.new_state(
            lambda lane, unit: mixed(
                load(arrays.update, *plain(unit)), self._active(1, at.sums(_CANDIDATE, lane)), unit
            )
        )

    def _active(self, number_of: int, x: Any) -> Any:
        return activated(self.cell.activations[number_of], x, self.cell.clip)


class _Vector:
    """One vector of hidden units of one sequence."""

    def __init__(self, tile: RecurrentTile, line: Any, row: Any, part: int) -> None:
        self.tile, self.line, self.row, self.part = tile, line, row, part

    def sums(self, gate: int, lane: Any) -> Any:
        """Sum of a gate."""
        return load(self.tile.kept, self.line, gate - self.tile.gates[0], self.part, lane)

    def stored(self, array: Any, at: Callable[[Any], list[Any]], value: _Value) -> Any:
        """Statement that stores values at the places of their units."""
        width = self.tile.layer.width

        def element(lane: Any) -> Any:
            unit = self.tile.place.unit + self.part * width + lane
            return store(array, value(lane, unit), at(unit))

        return vector(width, element)

    def state_place(self, half: Any, unit: Any) -> list[Any]:
        """PanelPlace in a half of the array of a state."""
        return [half, self.tile.place.direction, self.row, unit]

    def new_state(self, value: _Value) -> list[Any]:
        """Statements that store the state for the next step, and as a result."""
        tile, place = self.tile, self.tile.place
        states, series = tile.arrays.states[0], tile.arrays.series

        def of_series(unit: Any) -> list[Any]:
            return [place.time, self.row, place.direction * tile.layer.hidden + unit]

        return [
            self.stored(states, lambda unit: self.state_place(tile.new, unit), value),
            self.stored(series, of_series, lambda _, unit: load(states, *self.state_place(tile.new, unit))),
        ]
