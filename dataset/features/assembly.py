"""The one place where features are put together, for training and for serving alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms

from ..drafting.features import draft_vectors
from ..drafting.read_structure import read_structure
from ..drafting.read_traces import SketchReader
from ..hardware import Hardware
from ..replay import candidate_trace_json
from .decisions import decision_features
from .table import CandidateFeatures, FeatureTable
from .task import task_features


class FeatureAssembler:
    """Features of candidates on one device; the task vector has the candidate's draft vector behind it.

    The draft vector says of the whole nest what stores say one by one: bytes and runs of each tile, traffic
    past each cache, how well loops fit cores and vectors.
    """

    def __init__(self, hardware: Hardware) -> None:
        self._device = hardware
        self._hardware = hardware.features()
        self._extractor = ms.feature_extractor.PerStoreFeature()
        # MetaSchedule scores the same task many times in a row.
        self._task_mod: tvm.IRModule | None = None
        self._task: NDArray[np.float32]
        self._reader: SketchReader

    def assemble(self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]) -> FeatureTable:
        """Features of candidates of the task of `context`; raises ValueError when there is none."""
        return FeatureTable.from_candidates(self.rows(context, candidates))

    def rows(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> list[CandidateFeatures]:
        """Features of each candidate of the task of `context`."""
        if self._task_mod is None or not self._task_mod.same_as(context.mod):
            self._task_mod, self._task = context.mod, task_features(context.mod)
            self._reader = SketchReader(read_structure(context.mod))
        traces = [candidate_trace_json(candidate) for candidate in candidates]
        drafts, _ = draft_vectors(traces, self._reader, self._device)
        return [
            CandidateFeatures(
                stores=stores.numpy().astype(np.float32),
                decisions=decision_features(candidate.sch.trace),
                task=np.concatenate([self._task, draft]),
                hardware=self._hardware,
            )
            for candidate, draft, stores in zip(
                candidates, drafts, self._extractor.extract_from(context, list(candidates)), strict=True
            )
        ]
