"""What tells how alike two candidates of a task are, and so what the measurement of one says of another."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from ..dataset.drafting.features import draft_vectors
from ..dataset.drafting.read_structure import read_structure
from ..dataset.drafting.read_traces import SketchReader
from ..dataset.features.decisions import DECISION_DIM, decision_features
from ..dataset.hardware import Hardware
from ..dataset.replay import candidate_trace_json

_KNOB_TOKENS = 20


class Likeness:
    """Gives the candidates of one task places, which are near each other where programs are alike.

    A place is the draft vector, what a program's loops do on the device. Of a task whose loops cannot be
    followed, or where the device is not known, it is the decisions themselves.
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
            places, known = draft_vectors(traces, self._reader, self._hardware)
            if self._told or known.all():
                self._told = True
                return places
        self._reader = None
        return np.stack([_knobs(candidate.sch.trace) for candidate in candidates])


def _knobs(trace: Trace) -> NDArray[np.float32]:
    """The decision tokens of a trace in its order, zeros after the last."""
    tokens = decision_features(trace)[:_KNOB_TOKENS]
    padded = np.zeros((_KNOB_TOKENS, DECISION_DIM), dtype=np.float32)
    padded[: len(tokens)] = tokens
    return padded.ravel()
