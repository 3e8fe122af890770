"""Hierarchical search of ETO (section 5.1, Algorithm 1) over the programs of a multi-level tiled sketch.

A search is a generator. It yields lists of candidates, receives the cost of each (a latency, or the negative
score of a model), and returns the best one. The caller decides how the candidates are measured.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .program_features import CpuFeatures, FeatureRanges, ProgramFeatures, program_features
from .programs import Programs, Row, nest_of
from .shapes import Shape

Search: TypeAlias = Generator[list[Row], Mapping[Row, float], Row | None]
"""Yields candidates, receives their costs (inf for a failure, lower is better), returns the best one."""


@dataclass(frozen=True)
class HierarchicalSearch:
    """Algorithm 1 for a child α, given a parent's program S*_β."""

    programs: Programs
    parent: ProgramFeatures
    """Features of S*_β, each [1] (line 2)."""
    ranges: FeatureRanges
    features: CpuFeatures | None = None
    """Counterparts of the features on a CPU; None for the defaults."""

    def search(self) -> Search:
        """The search over all numbers of blocks, whose iterations (lines 3 to 23) are independent.

        The iterations advance together: all first rounds of measurement come first, then all second rounds.
        """
        blocks = self.ranges.blocks.scaled(float(self.parent.blocks[0]))
        found = yield from side_by_side(
            [self._of_blocks(count, shape) for count, shape in self.programs.shapes.block_shapes(blocks)]
        )
        return found

    def _of_blocks(self, blocks: int, shape: Shape) -> Search:
        """Lines 4 to 22 for one number of blocks B and its BShape (line 6)."""
        programs, shapes = self.programs, self.programs.shapes
        # Shared memory of one block of S*_β, per copy of this sketch's software pipeline.
        wanted = float(self.parent.shared[0] / self.parent.blocks[0]) / programs.sketch.pipeline_copies
        loads = shapes.load_shape(shape, wanted)  # line 7
        threads = self.ranges.threads.scaled(float(self.parent.threads[0]))
        units = shapes.unit_shapes(shape, loads, threads.scaled(1 / blocks))  # lines 8 and 9
        candidates = programs.programs([(shape, unit, loads) for _, unit in units])  # line 10
        best = yield from best_of(self._within(candidates))  # lines 11 to 13
        if best is None:
            return None
        others = self._with_shared(programs.other_loads(best, shapes.load_shapes()))
        best = yield from better(best, others)  # lines 14 to 16
        best = yield from better(best, programs.other_unrolls(best))  # lines 17 and 18
        for fetch in range(len(programs.sketch.fetches)):  # lines 19 to 22
            best = yield from better(best, programs.other_vectors(best, fetch))
        return best

    def _within(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with B and T in their ranges. A GPU's rows always are; a CPU's chunks also depend on S1."""
        if not rows:
            return []
        found = program_features(nest_of(self.programs.sketch, rows), self.features)
        inside = self.ranges.blocks.scaled(float(self.parent.blocks[0])).contains(found.blocks)
        inside &= self.ranges.threads.scaled(float(self.parent.threads[0])).contains(found.threads)
        return [row for row, kept in zip(rows, inside, strict=True) if kept]

    def _with_shared(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with M in its range (line 14)."""
        if not rows:
            return []
        found = program_features(nest_of(self.programs.sketch, rows), self.features)
        inside = self.ranges.shared.scaled(float(self.parent.shared[0])).contains(found.shared)
        return [row for row, kept in zip(rows, inside, strict=True) if kept]


def best_of(rows: Sequence[Row]) -> Search:
    """BestS: the cheapest candidate; None if no candidate runs."""
    if not rows:
        return None
    costs = yield list(rows)
    found = min(rows, key=lambda row: costs[row])
    return found if math.isfinite(costs[found]) else None


def better(best: Row, others: Sequence[Row]) -> Generator[list[Row], Mapping[Row, float], Row]:
    """The cheapest of the other candidates and the best so far, whose cost is requested again."""
    if not (others := [row for row in others if row != best]):
        return best
    found = yield from best_of([*others, best])
    return best if found is None else found


def side_by_side(searches: Sequence[Search]) -> Search:
    """Several searches at once, which propose each step's candidates together; returns the best result."""
    asked: list[tuple[Search, list[Row]]] = []
    results: list[Row] = []
    for search in searches:
        _advance(search, None, asked, results)
    while asked:
        costs = yield list(dict.fromkeys(row for _, rows in asked for row in rows))
        waiting, asked = asked, []
        for search, rows in waiting:
            _advance(search, {row: costs[row] for row in rows}, asked, results)
    best = yield from best_of(list(dict.fromkeys(results)))
    return best


def _advance(
    search: Search,
    costs: Mapping[Row, float] | None,
    asked: list[tuple[Search, list[Row]]],
    results: list[Row],
) -> None:
    try:
        asked.append((search, next(search) if costs is None else search.send(costs)))
    except StopIteration as end:
        if end.value is not None:
            results.append(end.value)
