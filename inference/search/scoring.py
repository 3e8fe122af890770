"""Cost model of a search: the frozen model, corrected by the measurements of the task."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.replay import candidate_trace_json
from ..surrogate.base import Surrogate
from ..surrogate.embedding import CandidateEmbedder
from .candidate import Candidate


@derived_object
class CorrectedCostModel(ms.cost_model.PyCostModel):
    """Frozen cost model for one task, corrected by a surrogate over the task's measurements."""

    def __init__(self, frozen: ms.CostModel, embedder: CandidateEmbedder, surrogate: Surrogate) -> None:
        super().__init__()
        self._frozen = frozen
        self._embedder = embedder
        self._surrogate = surrogate

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """Teaches the surrogate the shortest latency of each candidate."""
        if not len(candidates):
            return
        scores = self._frozen.predict(context, list(candidates))
        embedded = [
            Candidate(candidate_trace_json(candidate), float(score), embedding)
            for candidate, score, embedding in zip(
                candidates, scores, self._embedder(candidates), strict=True
            )
        ]
        self._surrogate.learn(
            embedded,
            [
                min((float(seconds) for seconds in result.run_secs or ()), default=math.inf)
                for result in results
            ],
        )

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Scores [n] on the scale of the frozen model. 1 is the best score that the measurements imply."""
        scores: NDArray[np.float64] = self._frozen.predict(context, list(candidates))
        if not len(candidates) or not self._surrogate.is_informed:
            return scores
        return np.asarray(self._surrogate.corrected(self._embedder(candidates), scores), np.float64)
