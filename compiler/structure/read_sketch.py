"""Reads a sketch from a trace: follows its instructions on the loops of a task's blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .products import OPEN, MappedProduct, index_groups, operands
from .sketch import Atom, Decision, Fetch, Sketch, banded, changed, place_of
from .sources import Source, source_of
from .structure import Block, Guard, TaskStructure

PARALLEL, VECTORISE = "meta_schedule.parallel", "meta_schedule.vectorize"
UNROLL = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit")
PIPELINE = "software_pipeline_stage"
FETCH, TILING = "meta_schedule.cooperative_fetch", "meta_schedule.tiling_structure"
LEAST_THREADS = "meta_schedule.thread_extent_low_inclusive"
MOST_THREADS = "meta_schedule.thread_extent_high_inclusive"
WARP = "warp_execution"


def read_sketch(trace: Sequence[Any], structure: TaskStructure) -> tuple[Sketch, list[int]]:
    """Sketch of a trace (parsed JSON without postprocessing) and the values of its decisions.

    Raises ValueError if the trace does not belong to this task or lacks a decision.
    """
    instructions, decided = trace
    values = {int(number): value for number, value in decided}
    reader = _Reader(structure)
    flat: list[int] = []
    for number, (kind, inputs, attributes, outputs) in enumerate(instructions):
        if kind.startswith("Sample"):
            if number not in values:
                raise ValueError(f"instruction {number}, {kind}, has no decision; pass a complete trace")
            value = values[number]
            flat += [int(v) for v in value] if isinstance(value, list) else [int(value)]
        reader.step(number, kind, inputs, attributes, outputs, values.get(number))
    return reader.sketch(json.dumps(instructions, separators=(",", ":"))), flat


class _Reader:
    """Interpreter that follows a trace on the loops of a task's blocks and ignores other instructions."""

    def __init__(self, structure: TaskStructure) -> None:
        self.structure = structure
        self.block_names: dict[str, str] = {}
        self.loops: dict[str, list[Atom]] = {}  # by loop variable
        self.nests: dict[str, list[str]] = {}  # by block: its loop variables, outermost first
        self.decision_of: dict[str, int] = {}  # by variable of a categorical or a location
        self.factor_of: dict[str, int] = {}  # by variable of a tile factor: its column
        self.decisions: list[Decision] = []
        self.tiled: dict[str, str] = {}  # by tiled block: its tiling structure
        self.annotations: dict[str, Any] = {}
        self.copies: dict[str, tuple[str, int, str]] = {}  # by copy: reading block, read index, scope
        self.copied_at: dict[str, str] = {}
        self.copy_vector: dict[str, int] = {}
        self.cached: dict[str, str] = {}  # by block of a cached write: the block that writes
        self.taken_at: list[str] = []  # loops at which consumers read outputs
        self.locations: dict[str, int] = {}  # by block: its decision
        self.inlined: set[str] = set()
        self.counts: dict[str, int] = {}
        self.products: dict[str, MappedProduct] = {}  # by block whose axes are fused
        self.matrices: dict[tuple[int, int], Any] = {}  # dimensions of its operands and output
        self.aliases: dict[str, str] = {}  # other variables of a product's loops
        self.tensorised: set[str] = set()  # variables of blocks whose inner loops are one instruction
        self.tiles: dict[int, int] = {}  # by column of a tile factor: its value
        self.aligned: dict[str, tuple[int, int]] = {}  # by copy
        self.collected = "", ""  # copy of an output in shared memory, and its scope

    def step(
        self, number: int, kind: str, inputs: list[Any], attributes: list[Any], outputs: list[str], value: Any
    ) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        inputs = [self.aliases.get(each, each) if isinstance(each, str) else each for each in inputs]
        if kind == "GetSBlock":
            self.block_names[outputs[0]] = attributes[0]
        elif kind.startswith("Sample"):
            self._sample(number, kind, inputs, attributes, outputs, value)
        elif kind == "GetLoops":
            self._get_loops(inputs[0], outputs)
        elif kind == "Split":
            self._split(inputs, outputs)
        elif kind == "Fuse":
            self._fuse(inputs, outputs[0])
        elif kind == "Reorder":
            self._reorder(inputs)
        elif kind == "Bind" and inputs[0] in self.loops:
            loop = self.loops[inputs[0]]
            self.loops[inputs[0]] = [changed(atom, thread=attributes[0]) for atom in loop]
        elif kind == "Annotate":
            self._annotate(inputs, attributes[0])
        elif kind == "CacheRead":
            self.copies[outputs[0]] = (inputs[0], int(attributes[0]), str(attributes[1]))
        elif kind == "CacheWrite":
            self.cached[outputs[0]] = inputs[0]
            if str(attributes[1]).startswith("shared"):
                self.collected = outputs[0], str(attributes[1])
        elif kind == "ComputeAt" and inputs[0] in self.copies:
            self.copied_at[inputs[0]] = inputs[1]
        elif kind == "ReverseComputeAt":
            self.taken_at.append(str(inputs[1]))
        elif kind == "ComputeInline":
            self.inlined.add(self.block_names.get(inputs[0], ""))
        elif kind == "StorageAlign":
            self.aligned[inputs[0]] = int(attributes[2]), int(attributes[3])
        elif kind == "TransformLayout" and self.block_names.get(inputs[0], "") in self.tiled:
            if inputs[0] not in self.tensorised:
                self.matrices[int(attributes[0]), int(attributes[1])] = index_groups(inputs[1])[1]
        elif kind == "TransformBlockLayout" and (name := self.block_names.get(inputs[0], "")) in self.tiled:
            self.products[name] = MappedProduct(*index_groups(attributes[0]), self.matrices)
        elif kind == "Blockize":
            self._blockize(inputs[0], outputs[0])

    def _sample(
        self, number: int, kind: str, inputs: list[Any], attributes: list[Any], outputs: list[str], value: Any
    ) -> None:
        column = sum(decision.width for decision in self.decisions)
        if kind == "SamplePerfectTile":
            decision = Decision(number, "tile", column, len(value), largest_innermost=int(attributes[1]))
            for offset, output in enumerate(outputs):
                self.factor_of[output] = column + offset
                self.tiles[column + offset] = int(value[offset])
        elif kind == "SampleCategorical":
            values, probabilities = attributes
            decision = Decision(
                number, "categorical", column, values=tuple(values), probabilities=tuple(probabilities)
            )
            self.decision_of[outputs[0]] = len(self.decisions)
        elif kind == "SampleComputeLocation":
            name = self.block_names.get(inputs[0], "")
            decision = Decision(number, "location", column, block=name)
            self.locations[name] = len(self.decisions)
        else:
            raise ValueError(f"instruction {number}: {kind} is not a known sampling instruction")
        self.decisions.append(decision)

    def _get_loops(self, variable: str, outputs: list[str]) -> None:
        name = self.block_names.get(variable)
        block = self.structure.block(name) if name else None
        if name is None or block is None:
            return
        if name in self.products:
            self._get_loops_of_product(variable, block, outputs)
            return
        if name not in self.nests and len(block.extents) == len(outputs):
            self.nests[name] = list(outputs)
            for axis, (output, extent) in enumerate(zip(outputs, block.extents, strict=True)):
                self.loops[output] = [Atom(axis, extent)]
        elif name in self.nests and len(self.nests[name]) == len(outputs):
            for output, known in zip(outputs, self.nests[name], strict=True):
                self.loops[output] = self.loops[known]
            self.nests[name] = list(outputs)

    def _get_loops_of_product(self, variable: str, block: Block, outputs: list[str]) -> None:
        """Loops of a block whose axes were fused into those of a product of matrices."""
        name = block.name
        if name not in self.nests:
            self.nests[name] = list(outputs)
            product = self.products[name]
            for axis, output in zip(range(len(product.axes)), outputs, strict=True):
                self.loops[output] = [Atom(axis, product.size(axis, block))]
            return
        known = self.nests[name][: len(outputs)] if variable in self.tensorised else self.nests[name]
        self.aliases.update(zip(outputs, known, strict=True))

    def _blockize(self, loop: str, output: str) -> None:
        for name, nest in self.nests.items():
            if name in self.products and loop in nest:
                self.block_names[output] = name
                self.tensorised.add(output)

    def _split(self, inputs: list[Any], outputs: list[str]) -> None:
        loop = self.loops.get(inputs[0])
        if loop is None:
            return
        axis = loop[-1].axis  # the innermost axis represents a fused loop
        factors = inputs[1:]
        if all(factor in self.factor_of for factor in factors):
            parts = [Atom(axis, column=self.factor_of[factor]) for factor in factors]
        elif len(factors) == 2 and factors[0] in ("None", None) and factors[1] in self.decision_of:
            if any(atom.column >= 0 or atom.decision >= 0 for atom in loop):
                return
            total = 1
            for atom in loop:
                total *= atom.size
            decision = self.decision_of[factors[1]]
            parts = [Atom(axis, total, decision=decision, outside=True), Atom(axis, total, decision=decision)]
        elif len(factors) == 2 and factors[0] in ("None", None) and self._is_of_product(inputs[0]):
            parts = [Atom(axis, OPEN), Atom(axis, int(factors[1]))]  # tiles of the instruction
        else:
            return
        for output, part in zip(outputs, parts, strict=True):
            self.loops[output] = [part]
        self._replace([inputs[0]], outputs)

    def _is_of_product(self, loop: str) -> bool:
        return any(name in self.products and loop in nest for name, nest in self.nests.items())

    def _fuse(self, inputs: list[str], output: str) -> None:
        if all(loop in self.loops for loop in inputs):
            self.loops[output] = [atom for loop in inputs for atom in self.loops[loop]]
            self._replace(inputs, [output])

    def _replace(self, old: Sequence[str], new: Sequence[str]) -> None:
        for name, nest in self.nests.items():
            if all(loop in nest for loop in old):
                at = nest.index(old[0])
                rest = [loop for loop in nest if loop not in old]
                self.nests[name] = rest[:at] + list(new) + rest[at:]

    def _reorder(self, order: list[str]) -> None:
        for name, nest in self.nests.items():
            if all(loop in nest for loop in order):
                turn = iter(order)
                moved = set(order)
                self.nests[name] = [next(turn) if loop in moved else loop for loop in nest]

    def _annotate(self, inputs: list[Any], name: str) -> None:
        target, value = inputs
        if name == TILING:
            self.tiled[self.block_names.get(target, "")] = str(value).strip('"')
        elif name == FETCH and value in self.decision_of:
            self.copy_vector[target] = self.decision_of[value]
        elif name in UNROLL:
            self.annotations["unroll"] = self.decision_of.get(value, -1) if isinstance(value, str) else -1
        elif name == PIPELINE and isinstance(value, list):
            # One buffer is in use, and one more is needed for each stage that fetches run ahead.
            self.annotations[name] = max(value) - min(value) + 1
        elif name in (PARALLEL, VECTORISE, LEAST_THREADS, WARP) and isinstance(value, int):
            self.annotations[name] = value

    def sketch(self, instructions: str) -> Sketch:
        tiled = [block for name in self.tiled if (block := self.structure.block(name))]
        block = max(tiled, key=lambda b: b.iterations, default=None) or self.structure.anchor
        if block is None:
            raise ValueError("the task has no block, so its trace has no sketch")
        if not block.iterations:
            raise ValueError(f"block {block.name}: a loop has no iteration, so its trace has no sketch")
        if block.name not in self.nests:
            self._get_loops_of(block)
        nest = self.nests[block.name]
        structure = self.tiled.get(block.name, "")
        if block.name in self.products:
            block = self._product(block, nest)
        starts, atoms = [0], []
        for loop in nest:
            atoms += self.loops[loop]
            starts.append(len(atoms))
        level_after = {loop: starts[i + 1] for i, loop in enumerate(nest)}
        of_loop = self._levels(nest, level_after)
        producer_of = {write.buffer: b.name for b in self.structure.blocks for write in b.writes}
        producers = [(i, producer_of.get(read.buffer, "")) for i, read in enumerate(block.reads)]
        return Sketch(
            instructions=instructions,
            decisions=tuple(self.decisions),
            block=block,
            atoms=tuple(banded(atoms, structure, block)),
            loop_starts=tuple(starts),
            structure=structure,
            write_level=max((of_loop.get(loop, 0) for loop in self.taken_at), default=0),
            cached_write=any(self.block_names.get(writer) == block.name for writer in self.cached.values()),
            fetches=tuple(
                Fetch(
                    read,
                    of_loop[self.copied_at[copy]],
                    scope,
                    self.copy_vector.get(copy, -1),
                    self._source(block, read),
                    self.aligned.get(copy, (1, 0)),
                )
                for copy, (reader, read, scope) in self.copies.items()
                if self.block_names.get(reader) == block.name and self.copied_at.get(copy) in of_loop
            ),
            producers=tuple(
                (i, self.locations[name]) for i, name in producers if name and name in self.locations
            ),
            inlined=tuple(i for i, name in producers if name and name in self.inlined),
            guards=tuple(self._guards(block)),
            max_parallel=self.annotations.get(PARALLEL, 0),
            max_vector=self.annotations.get(VECTORISE, 0),
            unroll=self.annotations.get("unroll", -1),
            pipeline_copies=self.annotations.get(PIPELINE, 1),
            counts=tuple(sorted(self.counts.items())),
            min_threads=self.annotations.get(LEAST_THREADS, 1),
            in_warps=bool(self.annotations.get(WARP, 0)),
            output=self._output(block),
        )

    def _product(self, block: Block, nest: Sequence[str]) -> Block:
        """Product that the sketch tiles; raises ValueError if its loops are not all known."""
        atoms = [atom for loop in nest for atom in self.loops[loop]]
        if any(atom.column < 0 and atom.size == OPEN for atom in atoms):
            raise ValueError(f"block {block.name}: its axes are fused, and the sketch does not tile them")
        extents = [1] * len(self.products[block.name].axes)
        for atom in atoms:
            extents[atom.axis] *= self.tiles[atom.column] if atom.column >= 0 else atom.size
        return self.products[block.name].block(block, extents)

    def _source(self, block: Block, read: int) -> Source | None:
        product = self.products.get(block.name)
        if product is None:
            return source_of(block.reads[read], self.structure, self.inlined)
        original = self.structure.block(block.name)
        assert original is not None
        origin = source_of(operands(original)[read], self.structure, self.inlined)
        return origin and product.source(original, block, (read, 0), origin)

    def _output(self, block: Block) -> Fetch | None:
        copy, scope = self.collected
        product, original = self.products.get(block.name), self.structure.block(block.name)
        if product is None or original is None or not copy:
            return None
        origin = Source.of(original.writes[0])
        source = product.source(original, block, (0, 1), origin)
        return Fetch(0, 0, scope, self.copy_vector.get(copy, -1), source)

    def _guards(self, block: Block) -> Iterator[tuple[Guard, tuple[int, ...]]]:
        for guard in block.guards if block.zero_initialised else ():
            decided = [name for name in guard.inlined_blocks if name not in self.inlined]
            if all(name in self.locations for name in decided):
                yield guard, tuple(self.locations[name] for name in decided)

    def _get_loops_of(self, block: Block) -> None:
        variable = next((v for v, name in self.block_names.items() if name == block.name), "anchor")
        self.block_names.setdefault(variable, block.name)
        self._get_loops(variable, [f"loop of {block.name} {axis}" for axis in range(len(block.extents))])

    def _levels(self, nest: Sequence[str], level_after: Mapping[str, int]) -> dict[str, int]:
        """Number of atoms outside or at each loop variable, including loops that were fused later."""
        levels = dict(level_after)
        start = 0
        for loop in nest:
            inside = self.loops[loop]
            for variable, atoms in self.loops.items():
                if variable not in levels and atoms:
                    last = place_of(atoms[-1])
                    for offset, atom in enumerate(inside):
                        if place_of(atom) == last:
                            levels[variable] = start + offset + 1
            start += len(inside)
        return levels
