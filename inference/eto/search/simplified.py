"""Simplified searches of sketches without multi-level tiling (ETO, section 5.2).

They are Algorithm 1 with fewer shapes. Each decision is one-dimensional. The search enumerates it within the
range that the parent's program sets for it, one decision after another. Each decision belongs to a block,
whose loops determine the range (section 5.2 on composite sketches). On a GPU MetaSchedule has these
sub-sketches:

    cross-thread reduction (softmax, norms): the number of threads that share a reduction. B is fixed; T.
    two-level tile (loops without reuse): the threads of a block over fused space loops. T is fixed; B.
    unrolled constant tensor (Winograd): tiles of the space loops around unrolled ones; T by the outer tiles.

The paper does not cover CPUs. On a CPU the tiles of split reductions and of space loops replace T.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....compiler.structure.sketch import Sketch
from ....compiler.structure.space import SketchSpace
from ....compiler.structure.structure import Block, TaskStructure
from ...reuse.conditions import operator_from
from .hierarchical import Search, better
from .program_features import FeatureRanges, Interval
from .programs import Row

CROSS_THREAD, TWO_LEVEL, TILE = "cross-thread reduction", "two-level tile", "tile"


@dataclass(frozen=True)
class SubSketch:
    """Decision outside of a multi-level tiled nest."""

    decision: int
    """Index into the sketch's decisions."""
    kind: str
    """CROSS_THREAD, TWO_LEVEL or TILE."""
    block: str
    """Block whose loop is split; "" for a block that the sketch creates."""


def sub_sketches(sketch: Sketch) -> list[SubSketch]:
    """Decisions of loops outside of the multi-level tiled nest, in the order of the sketch."""
    tiled = {atom.column for atom in sketch.atoms if atom.band >= 0}
    number_of = {d.instruction: number for number, d in enumerate(sketch.decisions)}
    blocks: dict[str, str] = {}  # block variable to name
    of_loop: dict[str, str] = {}  # loop variable to name of its block
    of_value: dict[str, int] = {}  # sampled variable to decision
    split: dict[int, tuple[str, list[str]]] = {}  # decision to block and new loops
    bound: dict[str, str] = {}
    for number, (kind, given, attributes, outputs) in enumerate(json.loads(sketch.instructions)):
        if kind == "GetSBlock":
            blocks[outputs[0]] = str(attributes[0])
        elif kind == "GetLoops":
            of_loop.update(dict.fromkeys(outputs, blocks.get(given[0], "")))
        elif number in number_of and kind != "SampleComputeLocation":
            of_value.update(dict.fromkeys(outputs, number_of[number]))
        elif kind == "Fuse":
            of_loop[outputs[0]] = of_loop.get(given[0], "")
        elif kind == "Split":
            block = of_loop.get(given[0], "")
            of_loop.update(dict.fromkeys(outputs, block))
            _note_split(split, of_value, given, block, outputs)
        elif kind == "Bind":
            bound[given[0]] = str(attributes[0])
    found = []
    for number, (block, loops) in sorted(split.items()):
        decision = sketch.decisions[number]
        if decision.kind == "tile" and decision.column not in tiled:
            found.append(SubSketch(number, TILE, block))
        elif decision.kind == "categorical" and bound.get(loops[-1]) == "threadIdx.x":
            whole = bound.get(loops[0], "").startswith("blockIdx")
            found.append(SubSketch(number, TWO_LEVEL if whole else CROSS_THREAD, block))
    return found


def _note_split(
    split: dict[int, tuple[str, list[str]]],
    of_value: dict[str, int],
    given: list[Any],
    block: str,
    outputs: list[str],
) -> None:
    for value in given[1:]:
        if isinstance(value, str) and value in of_value:
            split.setdefault(of_value[value], (block, list(outputs)))


@dataclass(frozen=True)
class SimplifiedSearch:
    """Sequential search of the decisions outside of a multi-level tiled nest."""

    space: SketchSpace
    structure: TaskStructure
    """Blocks of the child."""
    parent: Row
    """Values of the parent's program."""
    parent_sketch: Sketch
    parent_structure: TaskStructure

    def search(self, best: Row) -> Search:
        """The search from a given candidate; it enumerates unrolling last."""
        found = best
        parts = zip(sub_sketches(self.space.sketch), sub_sketches(self.parent_sketch), strict=False)
        for sub, of_parent in parts:
            found = yield from better(found, list(self._others(sub, of_parent, found)))
        if self.space.sketch.unroll >= 0 and not self.space.sketch.structure:
            column = self.space.sketch.decisions[self.space.sketch.unroll].column
            values = range(len(self.space.domains[self.space.sketch.unroll]))
            others = [(*found[:column], value, *found[column + 1 :]) for value in values]
            found = yield from better(found, others)
        return found

    def _others(self, sub: SubSketch, of_parent: SubSketch, best: Row) -> Iterator[Row]:
        """The candidate with each value of the decision that lies in the range."""
        ours, theirs = (
            self._nest(self.structure, self.space.sketch, sub),
            self._nest(self.parent_structure, self.parent_sketch, of_parent),
        )
        ranges = FeatureRanges.of(operator_from("", theirs), operator_from("", ours))
        decision = self.space.sketch.decisions[sub.decision]
        known = self.parent_sketch.decisions[of_parent.decision]
        then = self.parent[known.column : known.column + known.width]
        for value in self.space.domains[sub.decision].tolist():
            interval, now, before = _compared(sub.kind, ranges, ours, theirs, decision, value, known, then)
            if interval.scaled(before).contains(np.array([now]))[0]:
                yield (*best[: decision.column], *value, *best[decision.column + decision.width :])

    def _nest(self, structure: TaskStructure, sketch: Sketch, sub: SubSketch) -> Block:
        """Major loop nest of a sub-sketch: its block, or the sketch's if the sketch creates that block."""
        return structure.block(sub.block) or sketch.block


def _compared(
    kind: str,
    ranges: FeatureRanges,
    ours: Block,
    theirs: Block,
    decision: Any,
    value: list[int],
    known: Any,
    then: Row,
) -> tuple[Interval, float, float]:
    """Range of a ratio, and the features of the child and of the parent's program whose ratio it limits."""
    if kind == TILE:  # outer tiles, which run in parallel or are bound to threads
        return ranges.threads, float(math.prod(value[:-1])), float(math.prod(then[:-1]))
    threads = float(decision.values[value[0]]), float(known.values[then[0]])
    space = tuple(
        float(math.prod(e for e, r in zip(b.extents, b.reduction, strict=True) if not r))
        for b in (ours, theirs)
    )
    if kind == CROSS_THREAD:
        return ranges.threads, space[0] * threads[0], space[1] * threads[1]
    return ranges.blocks, math.ceil(space[0] / threads[0]), math.ceil(space[1] / threads[1])
