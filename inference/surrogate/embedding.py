"""Embeddings of candidates: vectors that are close for similar programs of a task."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from ...compiler.replay import candidate_trace_json
from ...compiler.structure.input_locations import InputLocation, input_locations
from ...compiler.structure.nest import Nest
from ...dataset.features.decisions import DECISION_DIM, decision_features
from ...dataset.features.draft_vector import DRAFT_DIM, DraftFeaturizer
from ...dataset.features.reading import task_reading
from ...dataset.hardware import Hardware

_MAX_TOKENS = 20

EMBEDDING_DIM = DRAFT_DIM + len(InputLocation) + 1

LOCATION_OFFSET = 16.0
"""Embedding offset for different compute locations, in each of two columns, and for each halving of the live
fraction. It equals the usual distance between draft vectors of one task. Draft vectors represent a compute
location only by a fraction and do not represent the live fraction. The model's errors on one kind of program
say little about its errors on another kind."""


class CandidateEmbedder:
    """Embeds the candidates of one task.

    An embedding combines the draft vector (the loops of the program on the device), the compute location of
    the nest's inputs, and the share of iterations that pass the guards. If the loops of a task cannot be read
    or the device is unknown, the embedding consists of the decision tokens.
    """

    def __init__(self, mod: IRModule, hardware: Hardware | None) -> None:
        """`mod` is the unscheduled task. A `hardware` of None selects decision tokens."""
        self._mod = mod
        self._hardware = hardware
        self._embeds_loops: bool | None = None
        """Whether embeddings are draft vectors; None before the first call."""

    def __call__(self, candidates: Sequence[ms.MeasureCandidate]) -> NDArray[np.float32]:
        """Embeddings of candidates, float32 [n, width]. The first call determines the kind of embedding."""
        if not candidates:
            return np.zeros((0, 0), dtype=np.float32)
        if self._embeds_loops is not False and self._hardware is not None:
            traces = [candidate_trace_json(candidate) for candidate in candidates]
            embeddings, read = _loop_embeddings(self._mod, self._hardware, traces)
            if self._embeds_loops or read == len(traces):
                self._embeds_loops = True
                return embeddings
        self._embeds_loops = False
        return np.stack([_decision_tokens(candidate.sch.trace) for candidate in candidates])


def _loop_embeddings(
    mod: IRModule, hardware: Hardware, traces: Sequence[str]
) -> tuple[NDArray[np.float32], int]:
    """Loop embeddings, float32 [n, EMBEDDING_DIM], zeros if unreadable, and the number of readable ones."""
    embeddings = np.zeros((len(traces), EMBEDDING_DIM), dtype=np.float32)
    read = 0
    # As in drafting, the loops of some tasks cannot be read.
    with contextlib.suppress(Exception):
        reader = task_reading(mod).sketches
        for sketch, values, numbers in reader.group_by_sketch(traces):
            featurizer = DraftFeaturizer(sketch, reader.structure, hardware)
            embeddings[numbers] = embeddings_of(featurizer(values), Nest.of(sketch, values))
            read += len(numbers)
    return embeddings, read


def embeddings_of(vectors: NDArray[np.float32], nest: Nest) -> NDArray[np.float32]:
    """Embeddings, float32 [n, EMBEDDING_DIM], of a sketch's candidates from draft vectors and loop nests."""
    apart = np.zeros((len(nest), len(InputLocation) + 1), dtype=np.float32)
    apart[np.arange(len(nest)), input_locations(nest)] = LOCATION_OFFSET
    apart[:, -1] = -LOCATION_OFFSET * np.log2(nest.live_fraction())
    return np.concatenate([vectors, apart], axis=1)


def _decision_tokens(trace: Trace) -> NDArray[np.float32]:
    """Decision tokens of a trace in order, padded with zeros."""
    tokens = decision_features(trace)[:_MAX_TOKENS]
    padded = np.zeros((_MAX_TOKENS, DECISION_DIM), dtype=np.float32)
    padded[: len(tokens)] = tokens
    return padded.ravel()
