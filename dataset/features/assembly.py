"""The one place where features are put together, for training and for serving alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms

from ..hardware import Hardware
from .decisions import decision_features
from .table import CandidateFeatures, FeatureTable
from .task import task_features


class FeatureAssembler:
    """Features of candidates on one device."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware.features()
        self._extractor = ms.feature_extractor.PerStoreFeature()
        # MetaSchedule scores the same task many times in a row.
        self._task_mod: tvm.IRModule | None = None
        self._task = np.zeros(0, dtype=np.float32)

    def assemble(self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]) -> FeatureTable:
        """Features of candidates of the task of `context`; raises ValueError when there is none."""
        return FeatureTable.from_candidates(self.rows(context, candidates))

    def rows(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> list[CandidateFeatures]:
        """Features of each candidate of the task of `context`."""
        if self._task_mod is None or not self._task_mod.same_as(context.mod):
            self._task_mod, self._task = context.mod, task_features(context.mod)
        return [
            CandidateFeatures(
                stores=stores.numpy().astype(np.float32),
                decisions=decision_features(candidate.sch.trace),
                task=self._task,
                hardware=self._hardware,
            )
            for candidate, stores in zip(
                candidates, self._extractor.extract_from(context, list(candidates)), strict=True
            )
        ]
