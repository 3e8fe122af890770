"""Kernel of a recurrent layer: a loop over its steps, whose number is known when it runs.

The share of the input is one product of all steps, which comes first. Each step adds the product of the state
with the recurrent weights. Threads share the hidden units of a step: a panel of weights has all gates of some
units, so that the thread which sums them computes the new state as well. The last panel and the last tile of
sequences may overlap those before them; both store equal values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx import IfThenElse, PrimFunc

from ..dynamic.elementwise_kernel import WIDTHS
from ..dynamic.kernel_parameters import row_tiles
from ..dynamic.nodes import (
    Places,
    allocated,
    fixed,
    in_vectors,
    loop,
    number,
    parallel,
    scheduled_function,
    sequence,
    simple,
    tile_start,
    vector,
)
from .arrays import RecurrentArrays, copied
from .layer import RecurrentLayer
from .tile import PanelPlace, RecurrentTile

_SHARED = 1 << 16
"""Multiply-adds of one step of one sequence from which on threads share it."""

_At = Callable[[Any, Any, Any], list[Any]]
"""Indices of a direction, a sequence and a unit."""


def recurrent_function(layer: RecurrentLayer, steps: Any, batch: Any) -> PrimFunc:
    """Function of all steps of a layer, whose extents `steps` and `batch` are numbers or variables.

    Its parameters are float32 arrays:

    1. shares of the input [steps, batch, directions * gates * hidden],
    2. recurrent weights, see `RecurrentLayer.packed`,
    3. of a cell with a late bias, that bias [directions, hidden],
    4. the first state [directions, batch, hidden], and of a cell with a memory, its first one,
    5. output: the states of all steps [steps, batch, directions * hidden],
    6. output: the last memory, or the last state of a cell without one [directions, batch, hidden].
    """
    arrays = RecurrentArrays(layer, steps, batch)

    def plain(*at: Any) -> list[Any]:
        return list(at)

    def half(number_of: Any) -> _At:
        return lambda *at: [number_of, *at]

    pairs = zip(arrays.states, arrays.first, strict=True)
    starts = [_copied(layer, batch, state, half(0), first, plain) for state, first in pairs]
    end = _copied(layer, batch, arrays.last, plain, arrays.states[-1], half(number(steps) % 2))
    directions = len(layer.backwards)

    def every(first: Any, count: int) -> Any:
        return loop("step", steps, lambda step: _step(layer, arrays, step, steps, batch, first, count))

    run = loop("direction", directions, lambda at: every(at, 1)) if layer.one_by_one else every(0, directions)
    body = allocated(arrays.workspaces, sequence(*starts, run, end))
    return scheduled_function(arrays.parameters, body).with_attr("tirx.noalias", True)


def _copied(layer: RecurrentLayer, batch: Any, target: Any, to: _At, source: Any, of: _At) -> Any:
    """Statement that copies a state."""

    def row(direction: Any, line: Any) -> Any:
        def part(start: Any, width: int) -> Any:
            return vector(
                width,
                lambda lane: copied(
                    target, to(direction, line, start + lane), source, of(direction, line, start + lane)
                ),
            )

        return in_vectors("unit", layer.hidden, WIDTHS, part)

    return loop("direction", len(layer.backwards), lambda at: loop("line", batch, lambda line: row(at, line)))


def _step(
    layer: RecurrentLayer, arrays: RecurrentArrays, step: Any, steps: Any, batch: Any, first: Any, count: int
) -> Any:
    """Statement of one step of `count` directions: a pass over all panels, or two with an early reset."""
    gates = range(layer.cell.gates)
    passes = [gates[:2], gates[2:]] if layer.cell.early_reset else [gates]
    return sequence(*(_panels(layer, arrays, step, steps, batch, first, count, one) for one in passes))


def _panels(
    layer: RecurrentLayer,
    arrays: RecurrentArrays,
    step: Any,
    steps: Any,
    batch: Any,
    first: Any,
    count: int,
    gates: range,
) -> Any:
    """Statement that sums some gates of all hidden units, and computes what follows from them."""

    def panel(at: Any) -> Any:
        places = Places()
        direction, panel = first + at // layer.panels, at % layer.panels
        start = tile_start(panel, layer.units, layer.hidden)
        time = _time(layer, step, steps, direction)
        computed, kept = places.kept([direction, panel, start, time])
        place = PanelPlace(step, *kept)

        def rows(row: Any, height: int) -> Any:
            return RecurrentTile(layer, arrays, place, gates, height).statement(row)

        return allocated([places.array], sequence(*computed, _tiles(layer, batch, rows)))

    share = count * layer.cell.gates * layer.hidden**2 >= _SHARED
    return (parallel if share else loop)("panel", count * layer.panels, panel)


def _tiles(layer: RecurrentLayer, batch: Any, tile: Callable[[Any, int], Any]) -> Any:
    """Statement of all sequences, in tiles of two heights that compute hardly any sequence twice.

    Fewer sequences than these tiles have are computed in pairs, or alone.
    """
    height, least = layer.rows, max(1, layer.rows - 1)
    known = fixed(batch)
    few = in_vectors("row", batch, [min(2, least)], tile)
    if height == 1 or (known is not None and known < least):
        return few
    count, tall = map(simple, row_tiles(number(batch), height, tirx.max))
    start = tall * height
    many = sequence(
        loop("row", tall, lambda at: tile(at * height, height)),
        loop("row", count - tall, lambda at: tile(tirx.min(start + at * least, batch - least), least)),
    )
    return many if known is not None else IfThenElse(number(batch) >= least, many, few)


def _time(layer: RecurrentLayer, step: Any, steps: Any, direction: Any) -> Any:
    """Number of a step in the arrays."""
    last, backwards = number(steps) - 1 - step, layer.backwards
    if len(set(backwards)) == 1:
        return last if backwards[0] else step
    return tirx.Select(direction == backwards.index(True), last, step)
