"""Store features in an order that depends on the program alone.

TVM describes the buffers of a store one after the other: most cache lines first, then most bytes, then by
name. Two buffers that agree in all three come in the order of their addresses in memory, which differs from
call to call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.stmt import SBlock

from ...compiler.tvm_compat import entry_function
from .table import STORE_DIM

BUFFERS, BUFFER_DIM, FIRST_BUFFER = 5, 18, 57
"""Buffers of a store that have features, columns of each buffer, and the first of these columns."""

_ALL_BUFFERS = 32
"""Buffers of a store among which the first ones are chosen. No fused operator reads as many in one store."""

_BYTES, _LINES = 3, 5
"""Columns of a buffer by which TVM sorts."""


class StoreExtractor:
    """Extractor of TVM's features of each store, with equal results for equal programs."""

    def __init__(self) -> None:
        self._usual = ms.feature_extractor.PerStoreFeature(buffers_per_store=BUFFERS)
        self._of_namesakes = ms.feature_extractor.PerStoreFeature(buffers_per_store=_ALL_BUFFERS)

    def __call__(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> list[NDArray[np.float32]]:
        """Features of each candidate's stores, float32 [n_stores, STORE_DIM]."""
        apart = [has_namesakes(candidate.sch.mod) for candidate in candidates]
        usual = iter(
            self._usual.extract_from(
                context, [c for c, is_apart in zip(candidates, apart, strict=True) if not is_apart]
            )
        )
        others = iter(
            self._of_namesakes.extract_from(
                context, [c for c, is_apart in zip(candidates, apart, strict=True) if is_apart]
            )
        )
        return [
            (first_buffers(next(others).numpy()) if is_apart else next(usual).numpy()).astype(np.float32)
            for is_apart in apart
        ]


def has_namesakes(mod: tvm.IRModule) -> bool:
    """Whether two buffers of a scheduled module have one name."""
    func = entry_function(mod)
    names = [str(parameter.name) for parameter in func.params]

    def collect(block: SBlock) -> None:
        names.extend(str(buffer.name) for buffer in block.alloc_buffers)

    tvm_ffi.structural_walk(func.body, (SBlock, collect))
    return len(set(names)) < len(names)


def first_buffers(stores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stores [n_stores, STORE_DIM] with the first `BUFFERS` buffers of each.

    Buffers of as many lines and bytes are sorted by their other features. `stores` is as wide as the features
    of all buffers need.
    """
    n_buffers = (stores.shape[1] - STORE_DIM) // BUFFER_DIM + BUFFERS
    head, buffers, tail = np.split(stores, [FIRST_BUFFER, FIRST_BUFFER + n_buffers * BUFFER_DIM], axis=1)
    of_each = buffers.reshape(len(stores), n_buffers, BUFFER_DIM)
    others = [column for column in range(BUFFER_DIM) if column not in (_BYTES, _LINES)]
    keys = [-of_each[:, :, column] for column in (*reversed(others), _BYTES, _LINES)]  # the last counts most
    order = np.lexsort(keys, axis=-1)[:, :BUFFERS]
    chosen = np.take_along_axis(of_each, order[:, :, None], axis=1)
    return np.concatenate([head, chosen.reshape(len(stores), BUFFERS * BUFFER_DIM), tail], axis=1)
