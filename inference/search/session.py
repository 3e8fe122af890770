"""Search session of one task: strategy, cost model that rates its proposals, and their embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.host.interruption import interrupts_deferred
from ...compiler.host.threads import linear_algebra_threads
from ...compiler.replay import RejectedError, apply_postprocessors, replay, replay_or_reject, trace_to_json
from ...compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR
from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError, make_tune_context
from ...dataset.hardware import Hardware
from ...dataset.sampling.programs import KnownCandidates, LiveProgram
from ...dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ..reuse.parent import ReuseParent
from ..run.profiling import StageClock
from ..spaces.base import DesignSpace
from ..spaces.chosen import chosen_space
from ..strategies.base import StrategySetting
from ..strategies.registry import strategy_class
from ..surrogate.embedding import CandidateEmbedder
from ..surrogate.shared import Surrogates
from .candidate import Candidate
from .config import OneShotConfig
from .loop import RoundBudget
from .scoring import CorrectedCostModel

UNCHANGED = "as the plain loops"
"""Cause for rejecting a schedule that changes nothing."""

_PARALLEL = ("Parallel", "Vectorize", "Bind")
"""Instructions that make the execution of a program differ from the plain loops."""


def over_scores(workload: str, group: str) -> tuple[str, str]:
    """Names of a task and its group for the surrogate over the scores of the cost model."""
    return _surrogate_names("scores", workload, group)


def _surrogate_names(scores: str, workload: str, group: str) -> tuple[str, str]:
    """Names of a task and its group for the surrogate over one kind of scores.

    Draft scores and cost-model scores have different errors. Each kind therefore has its own surrogate.
    """
    return f"{workload}/{scores}", f"{group}/{scores}" if group else ""


@dataclass(frozen=True, eq=False)
class SessionResources:
    """Settings, cost model, device and surrogates that the search sessions of a process share."""

    model: ms.CostModel
    """Frozen cost model, not necessarily Foretune's."""
    config: OneShotConfig
    hardware: Hardware | None
    """Target device, for embeddings; None embeds candidates by their decisions."""
    of_strategy: Any = None
    """Return value of `Strategy.load`."""
    surrogates: Surrogates = field(default_factory=Surrogates)
    threads: int | None = None
    """Number of threads that replay candidates; None means one per core."""
    clock: StageClock = field(default_factory=StageClock)
    """Clock that records the seconds of the search by stage."""


class Session(Protocol):
    """Search of one task."""

    @property
    def known(self) -> KnownCandidates:
        """Proposed and measured candidates, with the live programs of the unmeasured ones."""

    @property
    def counts(self) -> CandidateCounts:
        """Number of candidates so far by outcome."""

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """New candidates of the next round; empty if no candidate is left.

        Their live programs stay in `known` until they are measured.
        """

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """Learns latencies in seconds by trace, inf for a failure, also for candidates found elsewhere."""


class SearchSession:
    """Search of one task with a strategy, in this process."""

    def __init__(
        self,
        task: Task,
        target: Target,
        resources: SessionResources,
        *,
        space: DesignSpace | ms.SpaceGenerator | None = None,
        group: str = "",
    ) -> None:
        """Opens the task with the strategy of `resources.config`.

        Args:
            space: design space; None selects the design space that `config.space` names.
            group: name of the surrogate that the task shares with other tasks; see `Surrogates.of`.

        Raises NoDesignSpaceError if the task has nothing to tune, and OneShotConfigError or WeightsError if
        the device has no such sub-space.
        """
        config, model = resources.config, resources.model
        self._model = model
        self._proposes_without_starts = not (config.propose and config.measure)
        self._clock = resources.clock
        self._embedder = CandidateEmbedder(task.mod, resources.hardware)
        self.known = KnownCandidates()
        if space is None:
            space = chosen_space(config, task, target, resources.hardware)
        self._python_cause = PYTHON_POSTPROCESSOR
        if isinstance(space, DesignSpace):
            self._python_cause = space.python_cause(target)
        scorer, surrogate = model, None
        if config.surrogate:
            book = resources.surrogates
            of_scores = book.of(*over_scores(task.workload_hash, group))
            scorer = CorrectedCostModel(model, self._embedder, of_scores)
            surrogate = book.of(*_surrogate_names("drafts", task.workload_hash, group))
        with self._clock.stage("design space"):
            self._strategy = strategy_class(config.strategy.name).make(
                config.strategy,
                StrategySetting(
                    task=task,
                    target=target,
                    space=space.generator(target) if isinstance(space, DesignSpace) else space,
                    scorer=scorer,
                    surrogate=surrogate,
                    per_round=config.proposed,
                    random_share=config.random_share,
                    seed=config.seed,
                    threads=resources.threads,
                    known=self.known,
                    resources=resources.of_strategy,
                    clock=self._clock,
                    narrow=space.narrowed if isinstance(space, DesignSpace) else None,
                ),
            )
        self._proposed = 0

    @property
    def counts(self) -> CandidateCounts:
        """See Session. If the strategy does not count candidates, only the proposals are counted."""
        counts = self._strategy.counts
        if counts is None:
            return CandidateCounts(tried=self._proposed, proposed=self._proposed)
        return counts.renamed(PYTHON_POSTPROCESSOR, self._python_cause)

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """See Session. The `starts` that replay come first, then up to `config.proposed` candidates.

        A budget without search proposes only the starts. Without starts, the strategy still proposes
        candidates when `search.propose` or `search.measure` is false.
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
        self.known.hold(proposed)
        self._proposed += len(proposed)
        programs = [program for _, program in proposed]
        # The caller corrects the scores by its measurements. These are the scores of the frozen model.
        with linear_algebra_threads(1):
            scores = self._model.predict(self._strategy.context, programs)
        with self._clock.stage("embedding and serialising"):
            rows = zip(proposed, scores.tolist(), self._embedder(programs), strict=True)
            return [
                Candidate(trace, score, embedding, is_start=number < len(first))
                for number, ((trace, _), score, embedding) in enumerate(rows)
            ]

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Session. Traces that do not replay on the task are skipped."""
        measured = []
        for trace in latencies_s:
            program = self.known.release(trace) or replay(self._strategy.context, trace)
            if program is not None:
                measured.append(LiveProgram(trace, program))
        self._strategy.mark_measured(latencies_s)
        self._strategy.learn(measured, latencies_s)


class StartsSession:
    """Session that proposes start candidates only. It rates none of them and opens no design space."""

    def __init__(self, context: ms.TuneContext, python_cause: str = PYTHON_POSTPROCESSOR) -> None:
        """`context` has the task and its postprocessors; `python_cause` is as in `DesignSpace`."""
        self._context = context
        self._python_cause = python_cause
        self.known = KnownCandidates()
        self._proposed = 0
        self._rejected: Counter[str] = Counter()

    @property
    def counts(self) -> CandidateCounts:
        """See Session."""
        tried = self._proposed + self._rejected.total()
        counts = CandidateCounts(tried=tried, proposed=self._proposed, rejected=self._rejected)
        return counts.renamed(PYTHON_POSTPROCESSOR, self._python_cause)

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """See Session: the start candidates that replay on the task and are not known."""
        found: list[Candidate] = []
        for start in starts:
            try:
                program = replay_or_reject(self._context, start)
            except RejectedError as error:
                self._rejected[str(error)] += 1
                continue
            if trace_to_json(program.sch.trace) in self.known:
                self._rejected[DUPLICATE] += 1
            else:
                found.append(self._held(program, is_start=True))
        self._proposed += len(found)
        return found

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Session."""
        self.known.add(latencies_s)
        for trace in latencies_s:
            self.known.release(trace)

    def _held(self, program: ms.MeasureCandidate, *, is_start: bool = False) -> Candidate:
        """Unrated candidate of a program. The program is known and held from now on."""
        trace = trace_to_json(program.sch.trace)
        self.known.hold([LiveProgram(trace, program)])
        return Candidate(trace, 0.0, is_start=is_start)


class FixedSession(StartsSession):
    """Session of a task without decisions: proposes each schedule once, after the start candidates.

    Element-wise tasks on a CPU are an example. TVM has one schedule for them, with parallel and vectorised
    loops.
    """

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        space: ms.SpaceGenerator | None = None,
        keeps_unchanged: bool = False,
    ) -> None:
        """Opens the task.

        Args:
            space: design space; None selects MetaSchedule's.
            keeps_unchanged: whether to propose schedules that run like the plain loops, too.

        Raises NoDesignSpaceError if there is no schedule to propose.
        """
        generator = "post-order-apply" if space is None else space
        super().__init__(make_tune_context(task.mod, target, seed=0, space=generator, name=task.name))
        with interrupts_deferred():
            spaces = list(self._context.generate_design_space())
        self._left: list[Candidate] = []
        for space in spaces:
            try:
                program = apply_postprocessors(self._context, space)
            except RejectedError as error:
                self._rejected[str(error)] += 1
                continue
            instructions = program.sch.trace.insts
            if keeps_unchanged or any(one.kind.name in _PARALLEL for one in instructions):
                self._left.append(self._held(program))
            else:
                self._rejected[UNCHANGED] += 1
        if not self._left:
            causes = ", ".join(sorted(self._rejected)) or "the design space is empty"
            raise NoDesignSpaceError(f"task={task.name}: no schedule of the design space is left ({causes})")

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """See Session. Candidates are not rated. The first round that searches proposes all schedules."""
        proposals = super().propose(budget, starts, parents)
        if budget.search or not proposals:
            self._proposed += len(self._left)
            proposals, self._left = proposals + self._left, []
        return proposals

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Session. Candidates that were measured before are left out."""
        left = [proposal for proposal in self._left if proposal.trace not in latencies_s]
        self._rejected[DUPLICATE] += len(self._left) - len(left)
        self._left = left
        super().learn(latencies_s)
