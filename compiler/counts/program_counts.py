"""Work of one program on a device: bytes moved at each level of the memory hierarchy, and instructions.

They are counted from the lowered program, so that programs of one task differ: tiles decide what stays in a
cache, vector loops how many instructions there are, compute locations which values are computed twice.
Weaknesses of caches and vectors are counted, too: stretches of lines that no prefetcher foresees, lines that
cores take from each other, elements of vectors that are loaded one by one, and sums that wait for the one
before.
"""

from __future__ import annotations

from typing import NamedTuple

import tvm

from ..hardware import Hardware
from ..instruction_sets import registers_of
from .instructions import chained_additions, executed_instructions
from .traffic import LoweredStores

LEVELS = ("registers", "l1", "l2", "memory")
"""Levels of the memory hierarchy; bytes of a level are fetched by it from the next one, and
`memory` counts those past the last cache."""

RUN_LEVELS = ("l1", "l2")
"""Levels whose fetched stretches are counted."""

LINE_BYTES = 64
"""Cache line of x86 CPUs and of most others."""

L1_SPAN_BYTES = 4096
"""Bytes after which addresses share a set of the first cache: 64 sets of 64-byte lines on x86 CPUs."""

FLOPS_PER_LANE = 2
"""A lane of a vector instruction multiplies and adds."""


class ProgramCounts(NamedTuple):
    """Work of one call, over all cores."""

    moved_bytes: tuple[float, float, float, float]
    """Bytes by `LEVELS`."""
    instructions: float
    """Vector instructions of arithmetic; see `instructions`."""
    scattered: float = 0.0
    """Elements of vectors that are loaded or stored one by one; 0 if it is not counted."""
    runs: tuple[float, float] = (0.0, 0.0)
    """Stretches of lines that are fetched, by `RUN_LEVELS`; 0 if they are not counted."""
    contested: float = 0.0
    """Stores into lines that another core writes, too; 0 if they are not counted."""
    chained: float = 0.0
    """Additions that wait for the one before; 0 if they are not counted."""


def count_program(mod: tvm.IRModule, hardware: Hardware, flops: float) -> ProgramCounts:
    """Counts of a scheduled module; `flops` are the operations of its task.

    On a CPU a level whose size is not known moves as much as the level inside of it. A GPU's programs use
    shared memory and tensor cores, which the counts do not see: there only bytes past the L2 cache are
    counted, and instructions are those of `flops` at full vectors.
    """
    stores = LoweredStores(mod)
    if hardware.kind != "cpu":
        least = stores.compulsory_bytes
        past_l2 = stores.traffic_bytes(hardware.l2_bytes, LINE_BYTES) if hardware.l2_bytes else least
        return ProgramCounts((least, least, least, past_l2), full_vectors(flops, hardware))
    # Pages of a buffer may lie anywhere in the caches after the first.
    caches = ((hardware.l1_bytes, L1_SPAN_BYTES), (hardware.l2_bytes, None), (hardware.l3_bytes, None))
    moved = [stores.traffic_bytes(register_bytes(hardware.vector_bits))]
    for size, span in caches:
        moved.append(stores.traffic_bytes(size, LINE_BYTES, span) if size else moved[-1])
    registers, l1, l2, memory = moved
    runs = [stores.fetched_runs(size, LINE_BYTES, span) if size else 0.0 for size, span in caches[:2]]
    vector_bits = max(hardware.vector_bits, 32)
    return ProgramCounts(
        (registers, l1, l2, memory),
        executed_instructions(stores, vector_bits),
        stores.scattered_accesses(),
        (runs[0], runs[1]),  # the last cache fetches what all programs of a task fetch, or near it
        stores.contested_stores(hardware.cores, LINE_BYTES),
        chained_additions(stores, vector_bits),
    )


def full_vectors(flops: float, hardware: Hardware) -> float:
    """Instructions of so many operations if every lane multiplies and adds."""
    return flops / (FLOPS_PER_LANE * max(hardware.vector_bits / 32, 1))


def register_bytes(vector_bits: int) -> int:
    """Bytes of the vector registers: 32 with AVX-512, 16 otherwise."""
    return registers_of(vector_bits) * max(vector_bits, 32) // 8
