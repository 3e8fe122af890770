"""Scores of programs: by a frozen predictor, and corrected by the measurements of the task."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.replay import candidate_trace_json
from ...dataset.features.assembly import FeatureAssembler
from ...dataset.features.reading import task_reading
from ...dataset.features.table import CandidateFeatures, FeatureTable
from ...dataset.hardware import Hardware
from ...dataset.records.schema import latency_of
from ...models.architectures.cost_model import Predictor
from ..run.profiling import StageClock
from ..surrogate.base import Surrogate
from ..surrogate.embedding import CandidateEmbedder
from .candidate import Candidate

NEUTRAL_SCORE = 0.5
"""Score of a program without features: half the speed of the best program of its task. It is in the middle of
the scale, so that such a program is neither preferred nor ruled out."""

_LOG = logging.getLogger(__name__)


class ProgramScorer:
    """Scores programs on one device by a frozen predictor.

    A program has no features if its task computes nothing (an argument has an extent of 0), if its loops or
    its lowered form cannot be read, or if it has no store. Its score is NEUTRAL_SCORE.
    """

    def __init__(self, predictor: Predictor, hardware: Hardware, clock: StageClock) -> None:
        """`clock` records the seconds of the stages "features" and "prediction"."""
        self._predictor = predictor
        self._assembler = FeatureAssembler(hardware, counted=predictor.normaliser.reads_counts)
        self._clock = clock
        self._warned: set[str] = set()

    def __call__(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Scores of candidates of the context's task, float64 [n], without NaN; raises NanError."""
        with self._clock.stage("features"):
            rows = self._features(context, list(candidates))
        scores = np.full(len(rows), NEUTRAL_SCORE)
        known = [number for number, row in enumerate(rows) if row is not None]
        if known:
            with self._clock.stage("prediction"):
                table = FeatureTable.from_candidates([row for row in rows if row is not None])
                scores[known] = self._predictor.predict(table.batch())
        return scores

    def _features(
        self, context: ms.TuneContext, candidates: list[ms.MeasureCandidate]
    ) -> list[CandidateFeatures | None]:
        """Features of each candidate; None for a candidate without features."""
        try:
            if task_reading(context.mod).structure.is_empty:
                return [None] * len(candidates)
            rows = self._assembler.rows(context, candidates)
        except Exception as error:  # TVM raises various exceptions for programs that it cannot lower
            if len(candidates) > 1:
                return [row for one in candidates for row in self._features(context, [one])]
            self._warn(str(context.task_name), error)
            return [None]
        return [row if len(row.stores) and row.describes_program else None for row in rows]

    def _warn(self, task: str, error: Exception) -> None:
        """Warns once for each task."""
        if task not in self._warned:
            self._warned.add(task)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            _LOG.warning(
                "task %s: programs have no features, so that their score is %s (%s)",
                *(task, NEUTRAL_SCORE, reason),
            )


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
            [latency_of([float(seconds) for seconds in result.run_secs or ()]) for result in results],
        )

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Scores [n] on the scale of the frozen model. 1 is the best score that the measurements imply."""
        scores: NDArray[np.float64] = self._frozen.predict(context, list(candidates))
        if not len(candidates) or not self._surrogate.is_informed:
            return scores
        return np.asarray(self._surrogate.corrected(self._embedder(candidates), scores), np.float64)
