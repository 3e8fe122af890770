"""Loop extents and memory footprints at every level of a population's loop nests.

Level `l` lies inside the `l` outermost atoms. Its tile is the part that one iteration of these atoms covers:
the whole block at level 0, a single iteration at the last level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .sketch import INLINED, Fetch, Sketch
from .structure import Access, Floats


def atom_extents(sketch: Sketch, values: NDArray[np.int64]) -> Floats:
    """Iterations of each atom, float32 [n_atoms, n]."""
    extents = np.empty((len(sketch.atoms), len(values)), dtype=np.float32)
    for row, atom in enumerate(sketch.atoms):
        if atom.column >= 0:
            extents[row] = values[:, atom.column]
        elif atom.decision >= 0:
            decision = sketch.decisions[atom.decision]
            inside = np.array(decision.values, dtype=np.float32)[values[:, decision.column]]
            extents[row] = np.ceil(np.float32(atom.size) / inside) if atom.outside else inside
        else:
            extents[row] = atom.size
    return extents


@dataclass(frozen=True)
class Nest:
    """Loop nests of n candidates of one sketch."""

    sketch: Sketch
    values: NDArray[np.int64]  # [n, width]
    extents: Floats  # [n_atoms, n]
    tiles: list[Floats]  # for each axis [n_levels, n]: extent of the level's tile
    outer: Floats  # [n_levels, n]: iterations outside of the level

    @classmethod
    def of(cls, sketch: Sketch, values: NDArray[np.int64]) -> Nest:
        """Loop nests of the candidates with these values [n, width]."""
        extents = atom_extents(sketch, values)
        levels, n = len(sketch.atoms) + 1, len(values)
        tiles = [np.ones((levels, n), dtype=np.float32) for _ in sketch.block.extents]
        for level in range(levels - 2, -1, -1):
            for tile in tiles:
                tile[level] = tile[level + 1]
            tiles[sketch.atoms[level].axis][level] *= extents[level]
        outer = np.ones((levels, n), dtype=np.float32)
        np.cumprod(extents, axis=0, out=outer[1:])
        return cls(sketch, values, extents, tiles, outer)

    def __len__(self) -> int:
        return len(self.values)

    def product(self, atoms: NDArray[np.bool_] | list[bool]) -> Floats:
        """Product of the extents of the marked atoms; [n]."""
        return np.prod(self.extents[np.asarray(atoms, dtype=np.bool_)], axis=0, dtype=np.float32)

    def lanes(self, loops: int | None = None) -> Floats:
        """Vector length: iterations of the innermost spatial loops that MetaSchedule vectorises; [n].

        `loops` limits how many loops it may fuse into the vector.
        """
        reduction = self.sketch.block.reduction
        count = np.ones(len(self), dtype=np.float32)
        growing = np.ones(len(self), dtype=np.bool_)
        for atom, extent in zip(self.sketch.atoms[::-1][:loops], self.extents[::-1][:loops], strict=True):
            if reduction[atom.axis]:
                break
            growing &= count * extent <= self.sketch.max_vector
            count = np.where(growing, count * extent, count)
        return count

    def unroll_step(self) -> Floats:
        """Largest number of stores that TVM unrolls loops into, 0 if it unrolls none; [n]."""
        if self.sketch.unroll < 0:
            return np.zeros(len(self), dtype=np.float32)
        decision = self.sketch.decisions[self.sketch.unroll]
        steps: Floats = np.array(decision.values, dtype=np.float32)[self.values[:, decision.column]]
        return steps

    def live_fraction(self) -> Floats:
        """Fraction of the iterations that remain once unrolling removes those known to add zero; [n].

        TVM resolves a `Guard` at compile time if no loop that is left changes the remainder it tests.
        """
        share = np.ones(len(self), dtype=np.float32)
        if not self.sketch.guards:
            return share
        columns = np.arange(len(self))
        of_axis = np.array([atom.axis for atom in self.sketch.atoms])
        in_vector = self._in_vector()
        lanes = np.prod(np.where(in_vector, self.extents, 1), axis=0)
        stores = self.outer[-1] / self.outer / lanes
        level = np.argmax(stores <= np.maximum(self.unroll_step(), 1), axis=0)
        for guard, locations in self.sketch.guards:
            known = np.ones(len(self), dtype=np.bool_)
            for axis, coefficient in guard.axes:
                tile = self.tiles[axis][level, columns]
                known &= (coefficient * tile % guard.modulus == 0) | (tile == self.tiles[axis][0])
                known &= ~in_vector[of_axis == axis].any(axis=0)
            for number in locations:
                known &= self.values[:, self.sketch.decisions[number].column] == INLINED
            share = np.where(known, share / np.float32(guard.modulus), share)
        return share

    def _in_vector(self) -> NDArray[np.bool_]:
        """Loops that become the vector: the innermost spatial ones, with contiguous outputs; [n_atoms, n]."""
        block = self.sketch.block
        found = np.zeros(self.extents.shape, dtype=np.bool_)
        lanes = np.ones(len(self), dtype=np.float32)
        growing = np.ones(len(self), dtype=np.bool_)
        for row in range(len(found) - 1, -1, -1):
            axis, extent = self.sketch.atoms[row].axis, self.extents[row]
            if block.reduction[axis]:
                break
            apart = block.writes[0].stride(axis) * self.tiles[axis][row + 1]
            growing &= (extent == 1) | ((apart == lanes) & (lanes * extent <= self.sketch.max_vector))
            found[row] = growing & (extent > 1)
            lanes = np.where(found[row], lanes * extent, lanes)
        return found

    def location_level(self, number: int) -> NDArray[np.int64]:
        """Level of the compute location in decision `number`: 0 at the root, the last if inlined; [n]."""
        at = self.values[:, self.sketch.decisions[number].column]
        last = len(self.sketch.atoms)
        # A loop's own level is the one after it; the root, -1, lies before the first loop.
        levels = np.array([*self.sketch.loop_starts, last])
        return np.where(at == INLINED, last, levels[np.clip(at + 1, 0, len(levels) - 1)])

    def vector(self, fetch: Fetch) -> NDArray[np.int64]:
        """Vector length of a cooperative fetch, 1 if it has none; [n]."""
        if fetch.vector < 0:
            return np.ones(len(self), dtype=np.int64)
        decision = self.sketch.decisions[fetch.vector]
        lanes: NDArray[np.int64] = np.array(decision.values, dtype=np.int64)[self.values[:, decision.column]]
        return lanes

    def shared_tiles(self, level: int) -> list[Floats]:
        """Extents that all threads of a block cover together within a level, for each axis [n]."""
        tiles = [tile[level].copy() for tile in self.tiles]
        for atom, extent in zip(self.sketch.atoms[:level], self.extents[:level], strict=True):
            if atom.thread.startswith(("threadIdx", "vthread")):
                tiles[atom.axis] *= extent
        return tiles

    def shared_extents(self, fetch: Fetch) -> list[Floats]:
        """Elements of a cooperative fetch in each dimension of its buffer; each [n]."""
        tiles = [tile[None] for tile in self.shared_tiles(fetch.level)]
        return [extent[0] for extent in self.sketch.block.reads[fetch.read].extents(tiles)]

    def shared_footprint(self, fetch: Fetch) -> Floats:
        """Bytes of shared memory of a cooperative fetch, with the padding of its rows; [n]."""
        *extents, row = self.shared_extents(fetch) or [np.ones(len(self), dtype=np.float32)]
        factor, offset = fetch.aligned
        bytes_ = np.float32(self.sketch.block.reads[fetch.read].element_bytes) * (
            row + (offset - row) % factor
        )
        for extent in extents:
            bytes_ = bytes_ * extent
        return bytes_

    def footprint(self, access: Access) -> tuple[Floats, Floats]:
        """Bytes that a level's tile touches, and how many of them are contiguous; both [n_levels, n].

        All bytes of a packed buffer count as contiguous.
        """
        return access.footprint(self.tiles)
