"""Timing of the sample programs in a separate process, since a CPU that refuses AMX would end it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from typing import Any

import numpy as np
import tvm

from ....compiler.instruction_sets import INSTRUCTION
from ....compiler.templates.cpu.profile.sample_kernels import LINE, RegisterTile, sample_module, sample_tiles
from ....compiler.templates.cpu.profile.tile_profile import TileCost
from .isolation import isolated_timing
from .roles import Role

_REPEATS = 5
_SHORTEST_S = 3e-5
"""Seconds of a run, long enough that reading the clock does not count."""

_BYTE = 0x3F
"""Value of all bytes: 0.75 as float32 and bfloat16. Products of zeros take less time with AMX."""


class TileTimer(Role):
    """Role that measures register tiles."""

    def profile(self, instructions: list[str], l1_bytes: int, l2_bytes: int) -> dict[str, Any]:
        """Costs of all sampled register tiles for these instructions, by tile name."""
        tiles = [tile for name in instructions for tile in sample_tiles(INSTRUCTION[name])]
        library = tvm.compile(sample_module(tiles), target=self.target).jit()
        size = 5 * l2_bytes
        memory = [tvm.runtime.tensor(np.full(size, _BYTE, np.uint8)) for _ in range(3)]
        found = {}
        with isolated_timing():
            for tile in tiles:
                run = partial(library[tile.name], *memory)
                found[tile.name] = astuple(_cost(tile, run, l1_bytes, l2_bytes))
        return {"costs": found}


def _cost(tile: RegisterTile, run: Callable[..., object], l1_bytes: int, l2_bytes: int) -> TileCost:
    """Cost of a register tile from reductions of four lengths.

    Operands occupy an eighth and half of the first cache, half of the second cache, and four times the second
    cache.
    """
    each = tile.data_bytes + tile.weight_bytes
    pitch_of_step = LINE if tile.instruction.tiles else 4
    lengths = [max(2, l1_bytes // 8 // each)]
    lengths.append(max(lengths[0] + 1, l1_bytes // 2 // each))
    lengths += [l2_bytes // 2 // each, 4 * l2_bytes // each]

    def seconds(steps: int) -> float:
        # Rows at distances of a power of two would share cache lines.
        pitch = steps * pitch_of_step + LINE
        return _shortest(lambda repeats: run(pitch, steps, repeats))

    short, near, second, far = map(seconds, lengths)
    near_s = max((near - short) / (lengths[1] - lengths[0]), near / lengths[1] / 2)
    start_s = max(0.0, short - lengths[0] * near_s)
    return TileCost(
        start_s,
        near_s,
        *(max(near_s, total / n) for total, n in zip((second, far), lengths[2:], strict=True)),
    )


def _shortest(run: Callable[[int], object]) -> float:
    """Shortest seconds of one repeat."""
    repeats, best = 1, float("inf")
    while (taken := _seconds(run, repeats)) < _SHORTEST_S:
        repeats *= 2 if taken > _SHORTEST_S / 16 else 8
    for _ in range(_REPEATS):
        best = min(best, _seconds(run, repeats))
    return best / repeats


def _seconds(run: Callable[[int], object], repeats: int) -> float:
    begun = time.perf_counter()
    run(repeats)
    return time.perf_counter() - begun
