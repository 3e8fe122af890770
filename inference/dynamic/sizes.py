"""Sizes at which a network of dynamic shapes is compared with the original, and timed with other engines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from ...compiler.dynamic.symbols import Symbol

TILES = (4, 6, 8, 16, 32, 64)
"""Extents of register tiles and vectors: sizes next to a multiple have remainders."""

_MOST = 8
"""Sizes of one symbol."""


def sizes_to_compare(symbols: Mapping[str, Symbol]) -> list[dict[str, int]]:
    """Values of all symbols: the ends of their ranges in all combinations, and further ones side by side.

    Further sizes of a symbol are primes, multiples of a tile plus one, and the sizes expected most.
    """
    ends = product(*((symbol.low, symbol.high) for symbol in symbols.values()))
    found = [dict(zip(symbols, sizes, strict=True)) for sizes in ends]
    inner = {name: _inner(symbol) for name, symbol in symbols.items()}
    for turn in range(max(map(len, inner.values()))):
        # Symbols take their sizes in different orders, so that not all are small at once.
        found.append(
            {
                name: sizes[(turn if number % 2 == 0 else -1 - turn) % len(sizes)]
                for number, (name, sizes) in enumerate(inner.items())
            }
        )
    return _distinct(found)


def sizes_to_time(symbols: Mapping[str, Symbol]) -> list[dict[str, int]]:
    """The smallest sizes, their geometric means with the largest, and the largest."""
    return _distinct(
        [
            {name: one.low for name, one in symbols.items()},
            {name: round(math.sqrt(one.low * one.high)) for name, one in symbols.items()},
            {name: one.high for name, one in symbols.items()},
        ]
    )


def sizes_beyond(symbols: Mapping[str, Symbol]) -> list[dict[str, int]]:
    """Values outside of the ranges: all symbols too large, each alone, and all too small if they can be."""
    found = [{name: symbol.high + 1 for name, symbol in symbols.items()}]
    for name in symbols:
        found.append(
            {other: symbol.low for other, symbol in symbols.items()} | {name: 2 * symbols[name].high + 1}
        )
    small = {name: symbol.low - 1 for name, symbol in symbols.items() if symbol.low > 1}
    if small:
        found.append({name: symbol.low for name, symbol in symbols.items()} | small)
    return found


def _distinct(found: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    return [sizes for number, sizes in enumerate(found) if sizes not in found[:number]]


def _inner(symbol: Symbol) -> list[int]:
    """Sizes of one symbol, in order."""
    tried = [2, 3, symbol.high - 1, *(tile + 1 for tile in TILES)]
    middle = (symbol.low * symbol.high) ** 0.5
    tried += [_prime_from(int(middle)), _prime_from((symbol.low + symbol.high) // 2)]
    tried += [tile * (symbol.high // (2 * tile)) + 1 for tile in (16, 6)]
    expected = sorted(symbol.counts, key=lambda size: (-symbol.counts[size], size))[:2]
    inside = [size for size in dict.fromkeys([*expected, *tried]) if symbol.contains(size)]
    inside = inside or [symbol.low]
    if len(inside) > _MOST:
        kept = sorted(inside[2:])
        step = len(kept) / (_MOST - 2)
        inside = inside[:2] + [kept[int(number * step)] for number in range(_MOST - 2)]
    return sorted(inside)


def _prime_from(start: int) -> int:
    """The smallest prime that is at least `start`."""
    size = max(2, start)
    while any(size % factor == 0 for factor in range(2, int(size**0.5) + 1)):
        size += 1
    return size
