"""Origin of a copy into shared memory: addresses in global memory, through the blocks that are inlined."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .structure import Access, Block, TaskStructure, Term

Digits: TypeAlias = tuple[tuple[int, int], ...]
"""Axes that are fused into a dimension, the innermost first: the step of each and its extent.

The step is the number of elements from one index to the next, 0 if that differs from index to index.
"""


@dataclass(frozen=True)
class Source:
    """Addresses of a copied buffer in global memory, in elements."""

    steps: tuple[Digits, ...]
    """Axes of each dimension."""
    offset: int = 0
    """Address of index 0 in all dimensions."""

    @classmethod
    def of(cls, access: Access) -> Source:
        """Addresses of a buffer that is stored row by row."""
        return cls(
            tuple(((step, size),) for step, size in zip(_pitches(access.shape), access.shape, strict=True))
        )


def source_of(read: Access, structure: TaskStructure, inlined: Collection[str]) -> Source | None:
    """Source of the copy of a read buffer; None if it copies no plain vectors.

    Values may be computed on the way, or be zeros if the innermost dimension is outside of the input: TVM
    copies such elements one by one.
    """
    producer = next((b for b in structure.blocks if any(w.buffer == read.buffer for w in b.writes)), None)
    if producer is None or producer.name not in inlined:
        return Source.of(read)
    if not producer.copies or len(producer.reads) != 1:
        return None
    origin = source_of(producer.reads[0], structure, inlined)
    return None if origin is None else _through(producer, origin)


def _through(producer: Block, origin: Source) -> Source | None:
    read = producer.reads[0]
    steps = [0] * len(producer.writes[0].shape)
    axes = [_axis(terms) for terms in producer.writes[0].indices]
    for ((step, _),), terms, offset, size in zip(
        origin.steps, read.indices, read.offsets, read.shape, strict=True
    ):
        parts = [(axis, term.coefficient * c) for term in terms or () for axis, c in term.axes]
        spans = [coefficient * (producer.extents[axis] - 1) for axis, coefficient in parts]
        is_plain = terms is not None and all(term.divisor == 1 and not term.modulus for term in terms)
        outside = offset + sum(min(s, 0) for s in spans) < 0 or offset + sum(max(s, 0) for s in spans) >= size
        for axis, coefficient in parts:
            if axis not in axes:
                return None
            dimension = axes.index(axis)
            steps[dimension] += step * coefficient if is_plain else 0
            if is_plain and outside and dimension == len(steps) - 1:
                return None
    offset = sum(step * start for ((step, _),), start in zip(origin.steps, read.offsets, strict=True))
    shape = producer.writes[0].shape
    return Source(
        tuple(((step, size),) for step, size in zip(steps, shape, strict=True)), origin.offset + offset
    )


def _axis(terms: tuple[Term, ...] | None) -> int:
    """Axis of an index that is a single loop variable, -1 for any other."""
    if terms is not None and len(terms) == 1 and len(terms[0].axes) == 1 and terms[0].divisor == 1:
        return terms[0].axes[0][0] if terms[0].axes[0][1] == 1 and not terms[0].modulus else -1
    return -1


def _single(steps: Sequence[int], shape: Sequence[int]) -> tuple[Digits, ...]:
    """Dimensions of one axis each."""
    return tuple(((step, size),) for step, size in zip(steps, shape, strict=True))


def _pitches(shape: tuple[int, ...]) -> tuple[int, ...]:
    pitches = [1]
    for size in shape[:0:-1]:
        pitches.append(pitches[-1] * size)
    return tuple(pitches[::-1])
