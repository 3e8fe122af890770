"""The original network at the sizes of a comparison, which runs while the compiler leaves cores idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from ...compiler.dynamic.symbols import BEYOND, DynamicShapeError
from ...compiler.networks import Network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, sizes_text
from ...compiler.networks.inputs import example_inputs
from ...compiler.types import WIDE
from ..deploy.description import MAIN
from ..deploy.original import Original
from .sizes import sizes_beyond, sizes_to_compare

AHEAD_BYTES = 1 << 28
"""Bytes of inputs and outputs after which the thread computes no further ones."""


@dataclass(frozen=True, eq=False)
class OriginalAt:
    """The original at one size."""

    sizes: Mapping[str, int]
    entry: str
    """Function of the library that runs this size."""
    original: Callable[[], Original]
    """Waits until the thread has ended, and computes the outputs that it has left out."""


@contextmanager
def originals(
    network: Network, dynamic: DynamicInputs, seed: int, dtype: str = WIDE, *, beyond: bool = False
) -> Iterator[list[OriginalAt]]:
    """The original at the sizes to compare, and outside of the ranges if `beyond`.

    A thread computes its outputs in the block. Where all symbols are largest, a run takes longest, and the
    original runs once: a comparison there shows whether the planned memory suffices. The other sizes have
    edge cases, too. `OriginalAt.original` raises the errors of `Original`, and DynamicShapeError if the
    inputs do not fit into memory.
    """
    places = [(sizes, MAIN) for sizes in sizes_to_compare(dynamic.symbols)]
    if beyond:
        places += [(sizes, BEYOND) for sizes in sizes_beyond(dynamic.symbols)]
    thread, held = ThreadPoolExecutor(1), [0]
    original_at = partial(_original, network, dynamic, seed, dtype)

    def ahead(sizes: Mapping[str, int]) -> Original | None:
        if held[0] > AHEAD_BYTES:
            return None
        found = original_at(sizes)
        held[0] += found.nbytes
        return found

    futures: list[Future[Original | None]] = []

    def at(place: int) -> Original:
        for future in futures:
            future.exception()  # waits: a run that is timed gets all cores
        return futures[place].result() or original_at(places[place][0])

    try:
        futures += [thread.submit(ahead, sizes) for sizes, _ in places]
        yield [OriginalAt(*place, partial(at, number)) for number, place in enumerate(places)]
    finally:
        thread.shutdown(cancel_futures=True)


def _original(
    network: Network, dynamic: DynamicInputs, seed: int, dtype: str, sizes: Mapping[str, int]
) -> Original:
    try:
        arrays = example_inputs(dynamic.at(sizes), seed)
    except MemoryError as error:
        raise DynamicShapeError(
            f"network={network.name} at {sizes_text(sizes)}: its inputs do not fit into memory; narrow the "
            "range"
        ) from error
    largest = all(sizes[name] >= symbol.high for name, symbol in dynamic.symbols.items())
    return Original(network.with_inputs(arrays), dtype, once=largest)
