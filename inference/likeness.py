"""What tells how alike two candidates of a task are, and so what the measurement of one says of another."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from ..dataset.drafting.features import DRAFT_DIM, DraftFeaturizer
from ..dataset.drafting.input_places import InputPlace, input_places
from ..dataset.drafting.nest import Nest
from ..dataset.drafting.read_structure import read_structure
from ..dataset.drafting.read_traces import SketchReader
from ..dataset.features.decisions import DECISION_DIM, decision_features
from ..dataset.hardware import Hardware
from ..dataset.replay import candidate_trace_json

_KNOB_TOKENS = 20

PLACE_DIM = DRAFT_DIM + len(InputPlace) + 1

APART = 16.0
"""What programs are apart for computing inputs elsewhere, in each of two columns, and for each half of the
iterations that guards leave: as much as draft vectors of one task usually are, which tell the former by a
fraction alone and the latter not at all. What a model gets wrong about one kind says little of another."""


class Likeness:
    """Gives the candidates of one task places, which are near each other where programs are alike.

    A place is the draft vector, what a program's loops do on the device, where it computes the nest's inputs,
    and how many iterations its guards leave. Of a task whose loops cannot be followed, or where the device is
    not known, it is the decisions themselves.
    """

    def __init__(self, mod: IRModule, hardware: Hardware | None) -> None:
        """`mod` is the unscheduled task."""
        self._hardware = hardware
        self._told = False  # whether places were draft vectors
        self._reader: SketchReader | None = None
        # As in drafting: the loops of some tasks cannot be followed.
        with contextlib.suppress(Exception):
            self._reader = SketchReader(read_structure(mod))

    def __call__(self, candidates: Sequence[ms.MeasureCandidate]) -> NDArray[np.float32]:
        """The places of candidates, float32 [n, width]; those of the first call decide what a place is."""
        if not candidates:
            return np.zeros((0, 0), dtype=np.float32)
        if self._reader is not None and self._hardware is not None:
            traces = [candidate_trace_json(candidate) for candidate in candidates]
            places = np.zeros((len(traces), PLACE_DIM), dtype=np.float32)
            told = 0
            for sketch, values, numbers in self._reader.by_sketch(traces):
                featurizer = DraftFeaturizer(sketch, self._reader.structure, self._hardware)
                places[numbers] = places_of(featurizer(values), Nest.of(sketch, values))
                told += len(numbers)
            if self._told or told == len(traces):
                self._told = True
                return places
        self._reader = None
        return np.stack([_knobs(candidate.sch.trace) for candidate in candidates])


def places_of(vectors: NDArray[np.float32], nest: Nest) -> NDArray[np.float32]:
    """Places, float32 [n, PLACE_DIM], of a sketch's candidates by their draft vectors and loop nests."""
    apart = np.zeros((len(nest), len(InputPlace) + 1), dtype=np.float32)
    apart[np.arange(len(nest)), input_places(nest)] = APART
    apart[:, -1] = -APART * np.log2(nest.left_by_guards())
    return np.concatenate([vectors, apart], axis=1)


def _knobs(trace: Trace) -> NDArray[np.float32]:
    """The decision tokens of a trace in its order, zeros after the last."""
    tokens = decision_features(trace)[:_KNOB_TOKENS]
    padded = np.zeros((_KNOB_TOKENS, DECISION_DIM), dtype=np.float32)
    padded[: len(tokens)] = tokens
    return padded.ravel()
