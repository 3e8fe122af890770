"""Moves of a candidate to an adjacent one: one decision of its trace takes its next smaller or larger value.

The moves are the actions of Fasor's search (section 6.2.1): "the possible choices for one factor are [1, 2,
4, 8, 16], and the adjacent choices for the current value 4 are 2 and 8". A tile keeps its product, so one
factor grows as another one shrinks. As in MetaSchedule, the tile factors determine which loops run in
parallel and in vectors; a GPU also samples the vector length of its copies.

Actions have the same numbers in all tasks: axes, levels and inputs count from the innermost, as in the draft
vector. Each sketch supports the actions for its decisions. Decisions without an action keep their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure.domains import Table, divisors, perfect_tiles
from ...compiler.structure.sketch import Sketch
from ...compiler.structure.space import Choices, SketchSpace
from .draft_vector import MAX_FACTORS, MAX_LOCATIONS, MAX_REDUCTION, MAX_SPATIAL

ACTION_VERSION = "adjacent-1"
"""Version of the numbering of ACTIONS; change it whenever the meaning of an action changes."""

REDUCTION_FACTORS = 3
"""Tile factors of a reduction axis: two on a CPU, three on a GPU."""
CATEGORICALS = 4
"""Categorical decisions other than the unroll step, such as vector lengths of copies and thread extents."""


@dataclass(frozen=True)
class Action:
    """Step of one decision to an adjacent value.

    In a tile, the factor of level `grows` takes its next larger value, and the factor of level `shrinks`
    falls by the same ratio; level 0 is the innermost. Other decisions move by `step` positions in their table
    of values.
    """

    primitive: str  # "spatial", "reduction", "unroll", "categorical" or "location"
    slot: int = 0  # which decision of the primitive, 0 for the innermost axis
    grows: int = 0
    shrinks: int = 0
    step: int = 0

    @property
    def name(self) -> str:
        """Name such as `spatial 0: 2 to 0` or `unroll 0: +1`."""
        change = f"{self.step:+d}" if self.step else f"{self.shrinks} to {self.grows}"
        return f"{self.primitive} {self.slot}: {change}"


def _tile_actions(primitive: str, axes: int, levels: int) -> list[Action]:
    pairs = list(permutations(range(levels), 2))
    return [Action(primitive, axis, grows, shrinks) for axis in range(axes) for grows, shrinks in pairs]


def _step_actions(primitive: str, slots: int) -> list[Action]:
    return [Action(primitive, slot, step=step) for slot in range(slots) for step in (1, -1)]


ACTIONS: tuple[Action, ...] = (
    *_tile_actions("spatial", MAX_SPATIAL, MAX_FACTORS),
    *_tile_actions("reduction", MAX_REDUCTION, REDUCTION_FACTORS),
    *_step_actions("unroll", 1),
    *_step_actions("categorical", CATEGORICALS),
    *_step_actions("location", MAX_LOCATIONS),
)
"""All actions in the order of their numbers."""

_NUMBERS = {action: number for number, action in enumerate(ACTIONS)}


def inverse(action: int) -> int:
    """Number of the action that undoes a move."""
    done = ACTIONS[action]
    return _NUMBERS[Action(done.primitive, done.slot, done.shrinks, done.grows, -done.step)]


class AdjacentMoves:
    """Moves within the design space of one sketch.

    With `within`, the same sketch with fewer values of its decisions, a move goes on to the next value that
    occurs there. The outermost factor of a tile is free, because it is the rest of the extent.
    Candidates from outside may move, too: their other decisions keep their values.
    """

    def __init__(self, space: SketchSpace, within: SketchSpace | None = None) -> None:
        self.space = space
        self._allowed = [
            np.ones(table.shape, dtype=np.bool_) if within is None else _occurs(table, within.domains[number])
            for number, table in enumerate(space.domains)
        ]
        """Whether the factors or the value of each row of a domain occur within, bool [n_values, width]."""
        self._next: dict[int, tuple[int, NDArray[np.int32]]] = {}
        """Decision of each action of this sketch, and for each of its values the next one, or -1."""
        self._located: dict[int, int] = {}
        """Decision of each action whose values depend on the candidate's loops: locations of inputs."""
        producers = {decision for _, decision in space.sketch.producers}
        of_primitive = _slots(space.sketch)
        for number, action in enumerate(ACTIONS):
            slots = of_primitive[action.primitive]
            if action.slot >= len(slots) or (decision := slots[action.slot]) < 0:
                continue
            if decision in producers:
                self._located[number] = decision
            elif action.step:
                along = _along(len(space.domains[decision]), action.step)
                self._next[number] = decision, _onwards(along, self._allowed[decision][:, 0])
            elif max(action.grows, action.shrinks) < (width := space.sketch.decisions[decision].width):
                steps = _tile_steps(*_tile(space.domains[decision], space.sketch, decision))
                changed = [width - 1 - action.grows, width - 1 - action.shrinks]
                inner = self._allowed[decision][:, [column for column in changed if column]]
                self._next[number] = decision, _onwards(steps[tuple(changed)], np.all(inner, axis=1))

    @property
    def actions(self) -> list[int]:
        """Numbers of the actions that this sketch has, whether or not a candidate can take them."""
        return sorted([*self._next, *self._located])

    def legal(self, choices: Choices) -> NDArray[np.bool_]:
        """Actions that each candidate can take, bool [n, len(ACTIONS)]."""
        return self._following(choices) >= 0

    def apply(self, choices: Choices, actions: NDArray[np.int64]) -> Choices:
        """Candidates [n, n_decisions] after one action each; raises ValueError for one that is not legal."""
        rows = np.arange(len(choices))
        following = self._following(choices)[rows, actions]
        if (following < 0).any():
            row = int(np.argmax(following < 0))
            raise ValueError(f"candidate {row} cannot take the action {ACTIONS[int(actions[row])].name}")
        moved = choices.copy()
        moved[rows, [self._decision(int(action)) for action in actions]] = following
        return moved

    def _decision(self, action: int) -> int:
        return self._located[action] if action in self._located else self._next[action][0]

    def _following(self, choices: Choices) -> NDArray[np.int32]:
        """Value that each action gives its decision, int32 [n, len(ACTIONS)]; -1 for an illegal action."""
        found = np.full((len(choices), len(ACTIONS)), -1, dtype=np.int32)
        for number, (decision, following) in self._next.items():
            found[:, number] = following[choices[:, decision]]
        if self._located and len(choices):
            nearest = self.space.legal_locations(choices)
            for number, decision in self._located.items():
                found[:, number] = self._next_location(
                    choices[:, decision], decision, nearest, ACTIONS[number].step
                )
        return found

    def _next_location(
        self, here: NDArray[np.int32], decision: int, nearest: NDArray[np.int64], step: int
    ) -> NDArray[np.int32]:
        """The next compute location that TVM accepts in the direction of `step`, or -1; [n]."""
        table = self.space.domains[decision][:, 0]
        accepted = np.array(
            [nearest[value] == value if value >= 0 else np.ones(len(here), np.bool_) for value in table]
        )
        places = np.arange(len(table))[:, None]
        accepted &= self._allowed[decision]
        beyond = accepted & (places > here if step > 0 else places < here)
        # The first location beyond the current one in the direction of the step.
        order = places if step > 0 else -places
        chosen = np.argmin(np.where(beyond, order, len(table)), axis=0)
        return np.where(beyond.any(axis=0), chosen, -1).astype(np.int32)


def _slots(sketch: Sketch) -> dict[str, list[int]]:
    """Decisions of each primitive in the order of their slots."""
    of_column = {
        column: number
        for number, decision in enumerate(sketch.decisions)
        if decision.kind == "tile"
        for column in range(decision.column, decision.column + decision.width)
    }
    tiled = {atom.axis: of_column[atom.column] for atom in sketch.atoms if atom.column in of_column}
    inputs = {decision for _, decision in sketch.producers}
    numbered = list(enumerate(sketch.decisions))
    slots: dict[str, list[int]] = {
        "unroll": [sketch.unroll] if sketch.unroll >= 0 else [],
        "categorical": [n for n, d in numbered if d.kind == "categorical" and n != sketch.unroll],
        # As in the draft vector, the block's own inputs come first.
        "location": sorted((n for n, d in numbered if d.kind == "location"), key=lambda n: n not in inputs),
    }
    for primitive, reduces in (("spatial", False), ("reduction", True)):
        axes = [axis for axis, of_axis in enumerate(sketch.block.reduction) if of_axis is reduces][::-1]
        slots[primitive] = [tiled.get(axis, -1) for axis in axes]
    return slots


def _occurs(table: Table, within: Table) -> NDArray[np.bool_]:
    """Whether each number of a table occurs in the same column of `within`, bool [n_values, width]."""
    found: NDArray[np.bool_] = np.stack(
        [np.isin(*columns) for columns in zip(table.T, within.T, strict=True)], axis=1
    )
    return found


def _along(values: int, step: int) -> NDArray[np.int32]:
    """Position after each position of a table; -1 beyond its ends."""
    places = np.arange(values, dtype=np.int32) + step
    return np.where((places >= 0) & (places < values), places, -1).astype(np.int32)


def _onwards(following: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The first allowed position on the way that `following` leads from each position; -1 if none is."""
    found = following
    while (passed := (found >= 0) & ~allowed[found]).any():
        found = np.where(passed, following[found], found)
    return found


def _tile(table: Table, sketch: Sketch, decision: int) -> tuple[int, int, int]:
    of = sketch.decisions[decision]
    return int(np.prod(table[0])), of.width, of.largest_innermost


@lru_cache(maxsize=1024)
def _tile_steps(extent: int, width: int, largest_innermost: int) -> NDArray[np.int32]:
    """Tile after each step, int32 [width, width, n_tiles]; -1 if the step is not possible.

    `[grows, shrinks]` are positions of factors, the outermost first. The growing factor takes the next larger
    divisor of the product of both.
    """
    rows = [tuple(row) for row in perfect_tiles(extent, width, largest_innermost).tolist()]
    number = {row: place for place, row in enumerate(rows)}
    steps = np.full((width, width, len(rows)), -1, dtype=np.int32)
    for grows, shrinks in permutations(range(width), 2):
        for place, row in enumerate(rows):
            product = row[grows] * row[shrinks]
            larger = next((d for d in divisors(product) if d > row[grows]), None)
            if larger is not None:
                moved = list(row)
                moved[grows], moved[shrinks] = larger, product // larger
                steps[grows, shrinks, place] = number.get(tuple(moved), -1)
    steps.setflags(write=False)  # the cache shares it
    return steps
