"""Assembly of a candidate's features, shared by training and serving."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm.s_tir import meta_schedule as ms

from ..drafting.features import draft_vectors
from ..hardware import Hardware
from ..replay import candidate_trace_json
from .decisions import decision_features
from .reading import task_reading
from .table import CandidateFeatures, FeatureTable


class FeatureAssembler:
    """Assembler of candidate features for one device, with the draft vector appended to the task vector.

    The store features describe single stores. The draft vector describes the whole loop nest: bytes and
    contiguous runs of each tile, traffic past each cache, and how well loops fit cores and vector units.
    """

    def __init__(self, hardware: Hardware) -> None:
        self._device = hardware
        self._hardware = hardware.features()
        self._extractor = ms.feature_extractor.PerStoreFeature()

    def assemble(self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]) -> FeatureTable:
        """Feature table of candidates of the task of `context`; raises ValueError if there are none."""
        return FeatureTable.from_candidates(self.rows(context, candidates))

    def rows(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> list[CandidateFeatures]:
        """Features of each candidate of the task of `context`."""
        task = task_reading(context.mod)
        traces = [candidate_trace_json(candidate) for candidate in candidates]
        drafts, _ = draft_vectors(traces, task.sketches, self._device)
        return [
            CandidateFeatures(
                stores=stores.numpy().astype(np.float32),
                decisions=decision_features(candidate.sch.trace),
                task=np.concatenate([task.features, draft]),
                hardware=self._hardware,
            )
            for candidate, draft, stores in zip(
                candidates, drafts, self._extractor.extract_from(context, list(candidates)), strict=True
            )
        ]
