"""Base class of program samplers: rounds of proposals for one task, without duplicates.

Algorithm 1 refers to One-Shot Tuner, lines 14-25: explore with a cost model, measure, update the cost model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.replay import RejectedError, instantiate, replay_or_reject
from ....compiler.structure.limits import MAX_CODE
from ....compiler.structure.read_spaces import gpu_limits
from ....compiler.structure.row_space import RowSpace
from ....compiler.tvm_compat import available_cores, design_spaces, make_tune_context
from ...features.reading import task_reading
from ...measure.job import MeasureOutcome
from .counts import DUPLICATE, CandidateCounts
from .known_candidates import LiveProgram, LivePrograms
from .setting import SamplerSetting

_LARGEST_SEED = 2**31 - 2
# Random draws per wanted candidate before a space counts as exhausted; on GPUs most draws are rejected.
_DRAWS_PER_NEW = 30


class ProgramSampler(ABC):
    """Sampler that proposes candidates of one task in rounds and learns from their outcomes (Algorithm 1).

    Two candidates are the same if their canonical traces have the same decisions. On a GPU, candidates are
    drawn and changed as rows of decisions within the limits of a thread block (`RowSpace`), so that nearly
    all replayed candidates are valid.
    """

    name: str
    """Name of the sampler in records."""
    needs_scorer: ClassVar[bool] = False
    """Whether a cost model guides the sampler."""

    def __init__(self, setting: SamplerSetting, strategy: ms.SearchStrategy | str = "replay-trace") -> None:
        """Create the sampler of a task; `strategy` belongs to its tune context, see `make_tune_context`.

        Raises NoDesignSpaceError if the task has nothing to tune, and ValueError if a required scorer is
        missing.
        """
        if self.needs_scorer and setting.scorer is None:
            raise ValueError(f"sampler={self.name}: a cost model guides it; give a scorer")
        task = setting.task
        self.rejected: Counter[str] = Counter()
        """Number of invalid programs by cause."""
        self.passed_over: Counter[str] = Counter()
        """Number of valid programs that were not proposed, by cause: DUPLICATE, LOWER_SCORE."""
        self._tried = 0
        self._proposed = 0
        self.context = make_tune_context(
            task.mod,
            setting.target,
            seed=setting.seed,
            strategy=strategy,
            space=setting.space,
            name=task.name,
            threads=setting.threads or available_cores(),
            rejected=self.rejected,
        )
        self.scorer = setting.scorer
        self.spaces = design_spaces(self.context, task.name)
        self.per_round = setting.per_round
        self.rng = np.random.default_rng(setting.seed)
        self._random_share = setting.random_share
        self.known = setting.known
        """Candidates that are not proposed again."""

    @cached_property
    def rows(self) -> RowSpace | None:
        """Candidates as rows of decisions; None on a CPU, which rejects few programs."""
        limits = gpu_limits(self.context.target, MAX_CODE)
        if limits is None:
            return None
        return RowSpace.read(self.spaces, task_reading(self.context.mod).structure, limits)

    @property
    def dropped(self) -> Counter[str]:
        """Number of rows of decisions outside the limits of a GPU by cause; they are not replayed."""
        return Counter() if self.rows is None else self.rows.dropped

    def propose(self) -> list[LiveProgram]:
        """Propose the candidates of the next round, all of them new; empty if none was found."""
        drawn = self._draw()
        fresh = {trace: program for trace, program in drawn.items() if trace not in self.known}
        self.passed_over[DUPLICATE] += len(drawn) - len(fresh)
        return self._handed_on(fresh)

    @property
    def counts(self) -> CandidateCounts:
        """Candidates so far, by their outcome."""
        return CandidateCounts(
            tried=self._tried, proposed=self._proposed, rejected=self.rejected + self.passed_over
        )

    def _handed_on(self, found: LivePrograms) -> list[LiveProgram]:
        """New candidates as proposals; they count as known from now on."""
        self.known.add(found)
        self._proposed += len(found)
        return [LiveProgram(*item) for item in found.items()]

    def mark_measured(self, traces: Iterable[str]) -> None:
        """Mark candidates as measured, so that they are not proposed."""
        self.known.add(traces)

    def learn(self, measured: Sequence[LiveProgram], outcomes: Sequence[MeasureOutcome]) -> None:
        """Update the scorer, if there is one, with measured candidates (Algorithm 1, line 24)."""
        if self.scorer is None or not measured:
            return
        results = [
            ms.runner.RunnerResult(run_secs=list(outcome.run_secs) or None, error_msg=outcome.message or None)
            for outcome in outcomes
        ]
        with interrupts_deferred():
            self.scorer.update(self.context, [program for _, program in measured], results)

    @abstractmethod
    def _draw(self) -> LivePrograms:
        """Candidates of a round, which may contain known ones."""

    def _instantiate(self, trace: Trace) -> LiveProgram | None:
        """Candidate of a trace with its open decisions drawn at random; None, and counted, if rejected."""
        self._tried += 1
        try:
            return LiveProgram.of(instantiate(self.context, trace, self._draw_seed()))
        except RejectedError as error:
            self.rejected[str(error)] += 1
            return None

    def _replay(self, trace: str) -> LiveProgram | None:
        """Candidate of a trace with all decisions; None, and counted, if rejected."""
        self._tried += 1
        try:
            return LiveProgram.of(replay_or_reject(self.context, trace))
        except RejectedError as error:
            self.rejected[str(error)] += 1
            return None

    def _draw_seed(self) -> int:
        return int(self.rng.integers(1, _LARGEST_SEED))

    def _draw_random(self) -> LiveProgram | None:
        """Candidate with all decisions drawn at random; None if it is rejected."""
        if self.rows is not None:
            drawn = self.rows.draw(self.rng)
            return self._replay(drawn) if isinstance(drawn, str) else drawn and self._instantiate(drawn)
        space = self.spaces[self.rng.integers(len(self.spaces))]
        return self._instantiate(Trace(space.trace.insts, {}))

    def _draw_random_new(self, count: int, taken: Container[str] = ()) -> LivePrograms:
        """Up to `count` random candidates that are neither known nor `taken`; fewer if such are rare."""
        found: LivePrograms = {}
        for _ in range(_DRAWS_PER_NEW * count):
            if len(found) == count:
                break
            drawn = self._draw_random()
            if drawn is None:
                continue
            if drawn.trace in self.known or drawn.trace in taken or drawn.trace in found:
                self.passed_over[DUPLICATE] += 1
            else:
                found[drawn.trace] = drawn.program
        return found


def best_latency_s(outcomes: Sequence[MeasureOutcome]) -> float:
    """Shortest latency of outcomes in seconds, +inf if all failed."""
    return min((outcome.latency_s for outcome in outcomes), default=float("inf"))
