"""Assembly of a candidate's features, shared by training and serving."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms

from ...compiler.counts.program_counts import ProgramCounts, count_program
from ...compiler.replay import candidate_trace_json
from ..hardware import Hardware
from .decisions import decision_features
from .draft_vector import draft_vectors
from .reading import task_reading
from .stores import StoreExtractor
from .table import NO_COUNTS, CandidateFeatures, FeatureTable


class FeatureAssembler:
    """Assembler of candidate features for one device, with the draft vector appended to the task vector.

    The store features describe single stores. The draft vector describes the whole loop nest: bytes and
    contiguous runs of each tile, traffic past each cache, and how well loops fit cores and vector units.
    Counts come from the lowered program and include repeated computations.
    """

    def __init__(self, hardware: Hardware, *, counted: bool = False) -> None:
        """With `counted`, candidates have counts, which require lowering each candidate once more."""
        self._device = hardware
        self._counted = counted
        self._hardware = hardware.features()
        self._stores = StoreExtractor()

    def assemble(self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]) -> FeatureTable:
        """Feature table of candidates of the task of `context`; raises ValueError without candidates."""
        return FeatureTable.from_candidates(self.rows(context, candidates))

    def rows(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> list[CandidateFeatures]:
        """Features of each candidate of the task of `context`."""
        task = task_reading(context.mod)
        counts = [NO_COUNTS] * len(candidates)
        if self._counted:
            counts = [count_features(of_program) for of_program in self.counts(context, candidates)]
        traces = [candidate_trace_json(candidate) for candidate in candidates]
        drafts, _ = draft_vectors(traces, task.sketches, self._device)
        return [
            CandidateFeatures(
                stores=stores,
                # Only the instructions that a record keeps: training sees no others.
                decisions=decision_features(candidate.sch.trace.simplified(remove_postproc=True)),
                task=np.concatenate([task.features, draft]),
                hardware=self._hardware,
                counts=count,
            )
            for candidate, draft, stores, count in zip(
                candidates,
                drafts,
                self._stores(context, candidates),
                counts,
                strict=True,
            )
        ]

    def counts(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> list[ProgramCounts]:
        """Counts of each candidate of the task of `context`."""
        flops = task_reading(context.mod).flops
        return [count_program(candidate.sch.mod, self._device, flops) for candidate in candidates]


def count_features(counts: ProgramCounts) -> NDArray[np.float32]:
    """Columns of `FeatureTable.counts` of one program, float32 [COUNT_DIM]."""
    badly = [counts.scattered, *counts.runs, counts.contested, counts.chained]
    amounts = [counts.instructions, *counts.moved_bytes, *badly]
    return np.log2(1.0 + np.array(amounts)).astype(np.float32)
