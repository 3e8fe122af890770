"""Extents and footprints at every level of a population's loop nests.

Level `l` is the moment within the `l` outermost atoms: its tile is what one iteration of them covers, so
level 0 is the whole block and the last level a single iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .sketch import INLINED, Sketch
from .structure import Access, Floats


def atom_extents(sketch: Sketch, values: NDArray[np.int64]) -> Floats:
    """float32 [n_atoms, n]: iterations of each atom."""
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
    """The loop nests of n candidates of one sketch."""

    sketch: Sketch
    values: NDArray[np.int64]  # [n, width]
    extents: Floats  # [n_atoms, n]
    tiles: list[Floats]  # by axis [n_levels, n]: extent of the tile
    outer: Floats  # [n_levels, n]: iterations outside

    @classmethod
    def of(cls, sketch: Sketch, values: NDArray[np.int64]) -> Nest:
        """The nests of candidates by their values [n, width]."""
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
        """[n]: iterations of the marked atoms together."""
        return np.prod(self.extents[np.asarray(atoms, dtype=np.bool_)], axis=0, dtype=np.float32)

    def lanes(self, loops: int | None = None) -> Floats:
        """[n]: iterations of the loops that MetaSchedule vectorises: the innermost over space, as allowed.

        With `loops`, of so many of them at most.
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
        """[n]: stores that TVM unrolls loops into at most, 0 where it is to unroll none."""
        if self.sketch.unroll < 0:
            return np.zeros(len(self), dtype=np.float32)
        decision = self.sketch.decisions[self.sketch.unroll]
        steps: Floats = np.array(decision.values, dtype=np.float32)[self.values[:, decision.column]]
        return steps

    def left_by_guards(self) -> Floats:
        """[n]: share of the iterations that unrolled code keeps, as it knows the others to add nothing.

        A `Guard` is known there where no loop that stays one changes its rest.
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
        """[n_atoms, n]: loops that become a vector: the innermost over space, with outputs side by side."""
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
        """[n]: level of the compute location that is decision `number`: 0 at root, the last if inlined."""
        at = self.values[:, self.sketch.decisions[number].column]
        last = len(self.sketch.atoms)
        # A loop's own level is the one after it, and the root, -1, is before the first.
        levels = np.array([*self.sketch.loop_starts, last])
        return np.where(at == INLINED, last, levels[np.clip(at + 1, 0, len(levels) - 1)])

    def shared_footprint(self, access: Access, level: int) -> Floats:
        """Bytes [n] that all threads of a block together touch within a level."""
        tiles = [tile[level : level + 1].copy() for tile in self.tiles]
        for atom, extent in zip(self.sketch.atoms[:level], self.extents[:level], strict=True):
            if atom.thread.startswith(("threadIdx", "vthread")):
                tiles[atom.axis] *= extent
        bytes_ = np.full(len(self), access.element_bytes, dtype=np.float32)
        for extent in access.extents(tiles):
            bytes_ *= extent[0]
        return bytes_

    def footprint(self, access: Access) -> tuple[Floats, Floats]:
        """Bytes [n_levels, n] that a level's tile touches, and how many of them lie next to each other.

        Of a packed buffer all of them do.
        """
        extents = access.extents(self.tiles)
        elements = np.full_like(self.outer, access.element_bytes)
        for extent in extents:
            elements *= extent
        if access.packed:
            return elements, elements
        run = np.full_like(self.outer, access.element_bytes)
        whole = np.ones(self.outer.shape, dtype=np.bool_)
        # Contiguous from the last dimension on, as long as whole dimensions are touched.
        for extent, size in zip(reversed(extents), reversed(access.shape), strict=True):
            run = np.where(whole, run * extent, run)
            whole &= extent >= size
        return elements, run
