"""Search session of one task: a strategy, the cost model that rates its proposals, and their embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.host.interruption import interrupts_deferred
from ...compiler.host.threads import linear_algebra_threads
from ...compiler.replay import RejectedError, apply_postprocessors, replay, replay_or_reject, trace_to_json
from ...compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR
from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError, make_tune_context
from ...dataset.hardware import Hardware
from ...dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ..reuse.parent import ReuseParent
from ..run.profiling import StageClock
from ..spaces.base import DesignSpace
from ..spaces.chosen import chosen_space
from ..strategies.base import StrategySetting
from ..strategies.registry import strategy_class
from ..surrogate.embedding import CandidateEmbedder
from ..surrogate.shared import Surrogates
from .config import OneShotConfig
from .loop import RoundBudget
from .proposal import Candidate
from .scoring import CorrectedCostModel

UNCHANGED = "as the plain loops"
"""Cause of a rejected schedule that changes nothing."""

_PARALLEL = ("Parallel", "Vectorize", "Bind")
"""Instructions that make a program run otherwise than the plain loops."""


def over_scores(workload: str, group: str) -> tuple[str, str]:
    """Names of a task and its group for the surrogate over the scores of the cost model."""
    return _over("scores", workload, group)


def _over(scores: str, workload: str, group: str) -> tuple[str, str]:
    """Draft scores and cost-model scores differ in their errors: each has a surrogate."""
    return f"{workload}/{scores}", f"{group}/{scores}" if group else ""


class Session(Protocol):
    """A task that is searched."""

    @property
    def counts(self) -> CandidateCounts:
        """Candidates so far, by what became of them."""

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """The candidates of the next round, none of which was proposed before; empty where none is left."""

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """Takes latencies in seconds by trace, inf for a failure, also of candidates found elsewhere."""


class SearchSession:
    """A strategy searching one task in this process."""

    def __init__(
        self,
        task: Task,
        target: Target,
        model: ms.CostModel,
        config: OneShotConfig,
        *,
        hardware: Hardware | None,
        resources: object = None,
        space: DesignSpace | ms.SpaceGenerator | None = None,
        surrogates: Surrogates | None = None,
        group: str = "",
        threads: int | None = None,
        clock: StageClock | None = None,
    ) -> None:
        """Opens the task with `config.strategy`, whose `resources` its class has loaded.

        Args:
            model: frozen cost model, not necessarily Foretune's.
            hardware: the device, for embeddings; None embeds candidates by their decisions.
            space: design space; None is that of `config.space`.
            surrogates, group: the surrogate that the strategy learns with; see `Surrogates.of`.

        Raises NoDesignSpaceError where the task has nothing to tune, and OneShotConfigError or WeightsError
        for a sub-space of a device that has none.
        """
        self._model = model
        self._proposes_without_starts = not (config.propose and config.measure)
        self._clock = clock or StageClock()
        self._embedder = CandidateEmbedder(task.mod, hardware)
        if space is None:
            space = chosen_space(config, task, target, hardware)
        self._python_cause = PYTHON_POSTPROCESSOR
        if isinstance(space, DesignSpace):
            self._python_cause = space.python_cause(target)
        book = surrogates or Surrogates()

        scorer = model
        if config.surrogate:
            scorer = CorrectedCostModel(
                model, self._embedder, book.of(*over_scores(task.workload_hash, group))
            )
        with self._clock.stage("design space"):
            self._strategy = strategy_class(config.strategy.name).make(
                config.strategy,
                StrategySetting(
                    task=task,
                    target=target,
                    space=space.generator(target) if isinstance(space, DesignSpace) else space,
                    scorer=scorer,
                    surrogate=book.of(*_over("drafts", task.workload_hash, group))
                    if config.surrogate
                    else None,
                    per_round=config.proposed,
                    random_share=config.random_share,
                    seed=config.seed,
                    threads=threads,
                    resources=resources,
                    clock=self._clock,
                    narrow=space.narrowed if isinstance(space, DesignSpace) else None,
                ),
            )
        self._open: dict[str, ms.MeasureCandidate] = {}
        """Proposed candidates that were not measured."""
        self._proposed = 0

    @property
    def counts(self) -> CandidateCounts:
        """See Session; of a strategy that does not count, the proposals alone."""
        counts = self._strategy.counts
        if counts is None:
            return CandidateCounts(tried=self._proposed, proposed=self._proposed)
        return counts.renamed(PYTHON_POSTPROCESSOR, self._python_cause)

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """See Session; up to `config.proposed` candidates, after those of `starts` that replay.

        A budget without search has the starts alone; where `search.propose` or `search.measure` is false,
        only if there are some.
        """
        if parents and budget.search:
            with self._clock.stage("drafting"):
                self._strategy.take_parents(parents)
        with self._clock.stage("replay and postprocessing"):
            first = self._strategy.take_starts(starts)
            searches = budget.search or (not first and self._proposes_without_starts)
            proposed = first + (self._strategy.propose(budget) if searches else [])
        if not proposed:
            return []
        self._open |= dict(proposed)
        self._proposed += len(proposed)
        programs = [program for _, program in proposed]
        # The caller corrects by what it measures: the frozen model's scores are wanted.
        with linear_algebra_threads(1):
            scores = self._model.predict(self._strategy.context, programs)
        with self._clock.stage("embedding and serialising"):
            rows = zip(proposed, scores.tolist(), self._embedder(programs), strict=True)
            return [
                Candidate(*found, score, embedding, is_start=number < len(first))
                for number, (found, score, embedding) in enumerate(rows)
            ]

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Session; a trace that does not replay on the task is passed over."""
        known = {trace: self._open.pop(trace, None) for trace in latencies_s}
        for trace, candidate in known.items():
            known[trace] = candidate or replay(self._strategy.context, trace)
        self._strategy.mark_measured(latencies_s)
        measured = [(trace, candidate) for trace, candidate in known.items() if candidate is not None]
        self._strategy.learn(measured, latencies_s)


class FixedSession:
    """A task whose schedules leave nothing to decide: each is proposed once, behind start candidates.

    Element-wise tasks of a CPU are such: TVM has one schedule for them, whose loops run in parallel and in
    vectors.
    """

    def __init__(self, task: Task, target: Target) -> None:
        """Raises NoDesignSpaceError where no schedule changes how the task runs."""
        self._context = make_tune_context(task.mod, target, seed=0, name=task.name)
        with interrupts_deferred():
            spaces = list(self._context.generate_design_space())
        self._left: list[Candidate] = []
        self._seen: set[str] = set()
        """Start candidates that were proposed, and all that was measured elsewhere."""
        self._tried = len(spaces)
        self._proposed = 0
        self._rejected: Counter[str] = Counter()
        for space in spaces:
            try:
                program = apply_postprocessors(self._context, space)
            except RejectedError as error:
                self._rejected[str(error)] += 1
                continue
            if any(instruction.kind.name in _PARALLEL for instruction in program.sch.trace.insts):
                self._left.append(Candidate(trace_to_json(program.sch.trace), program, 0.0))
            else:
                self._rejected[UNCHANGED] += 1
        if not self._left:
            raise NoDesignSpaceError(f"task={task.name}: no schedule of MetaSchedule's changes how it runs")

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """See Session; unrated. All schedules come in the first round that searches, and none later."""
        proposals = self._started(starts)
        if budget.search or not proposals:
            proposals, self._left = proposals + self._left, []
        self._proposed += len(proposals)
        return proposals

    def _started(self, starts: Sequence[str]) -> list[Candidate]:
        """Start candidates that replay on the task and are none of its own schedules."""
        found: list[Candidate] = []
        own = {other.trace for other in self._left}
        for start in starts:
            self._tried += 1
            try:
                program = replay_or_reject(self._context, start)
            except RejectedError as error:
                self._rejected[str(error)] += 1
                continue
            trace = trace_to_json(program.sch.trace)
            if trace in own | self._seen:
                self._rejected[DUPLICATE] += 1
            else:
                self._seen.add(trace)
                found.append(Candidate(trace, program, 0.0, is_start=True))
        return found

    @property
    def counts(self) -> CandidateCounts:
        """See Session; the schedules are tried when the task is opened."""
        return CandidateCounts(
            tried=self._tried - len(self._left), proposed=self._proposed, rejected=self._rejected
        )

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Session; leaves out what was measured before."""
        left = [proposal for proposal in self._left if proposal.trace not in latencies_s]
        self._rejected[DUPLICATE] += len(self._left) - len(left)
        self._left = left
        self._seen.update(latencies_s)
