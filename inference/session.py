"""The search of one task with a frozen model, round by round (One-Shot Tuner section 4.2)."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from ..dataset.interruption import interrupts_deferred
from ..dataset.measure import MeasureOutcome
from ..dataset.program_sampling import (
    AnnealingConfig,
    AnnealingSampler,
    EvolutionarySampler,
    ExplorationConfig,
    ProgramSampler,
    RandomSampler,
)
from ..dataset.replay import RefusedError, candidate_module_json, postprocessed, replay, trace_to_json
from ..dataset.task import Task
from ..dataset.threads import linear_algebra_threads
from ..dataset.tvm_compat import NoDesignSpaceError, make_tune_context, trace_as_json
from .code_limit import limited_space
from .draft_model import DraftModel
from .draft_sampler import DraftSampler
from .drafting import DraftConfig, UnreadableSpaceError
from .likeness import Likeness
from .plugin import PretrainedCostModel
from .search_config import OneShotConfig
from .stages import StageClock
from .validation import Proposal

_LOG = logging.getLogger(__name__)

_FAILED = MeasureOutcome()

_NO_PLACE = np.zeros(1, dtype=np.float32)

_PARALLEL = ("Parallel", "Vectorize", "Bind")
"""Instructions by which a program runs otherwise than the plain loops."""

QUICK_PROPOSALS = 16
"""Candidates of a quick round, after a short draft or drawn at random."""


def record_json(trace: Trace) -> str:
    """JSON of a trace as a MetaSchedule database keeps it."""
    return json.dumps(trace_as_json(trace), separators=(",", ":"))


def make_sampler(
    task: Task,
    target: Target,
    scorer: ms.CostModel,
    config: OneShotConfig,
    *,
    draft_model: DraftModel | None = None,
    space: ms.SpaceGenerator | str | None = None,
    threads: int | None = None,
    clock: StageClock | None = None,
) -> ProgramSampler:
    """The search that `config.strategy` names; `draft` needs a `draft_model`.

    It proposes `config.handed_over` candidates a round, more than are measured of it.

    A task that drafting cannot follow is searched by evolution. `config.max_code` holds for TVM's own design
    space of a CPU; a space that is given is searched as it is. `clock` takes the time of drafting. Raises
    NoDesignSpaceError where there is nothing to tune.
    """
    if space is None:
        most = config.max_code if target.kind.name == "llvm" else None
        space = "post-order-apply" if most is None else limited_space(task.mod, target, most)
    if config.strategy == "draft":
        if draft_model is None:
            raise ValueError("search.strategy=draft: needs a draft_model")
        try:
            return DraftSampler(
                task,
                target,
                model=draft_model,
                config=DraftConfig(
                    population=config.draft.population,
                    generations=config.draft.generations,
                    keep=config.draft.keep,
                    vectorised_share=config.draft.vectorised_share,
                    elsewhere_share=config.draft.elsewhere_share,
                ),
                refining=DraftConfig(
                    population=config.draft.refine_population,
                    generations=config.draft.refine_generations,
                    keep=config.draft.refine_keep,
                    vectorised_share=0.0,
                    elsewhere_share=0.0,
                ),
                random_share=config.random_share,
                residual=config.residual,
                per_round=config.handed_over,
                seed=config.seed,
                space=space,
                threads=threads,
                clock=clock,
            )
        except UnreadableSpaceError as error:
            _LOG.info("%s cannot be drafted (%s): it is searched by evolution", task.name, error)
    if config.strategy == "annealing":
        return AnnealingSampler(
            task,
            target,
            scorer=scorer,
            config=AnnealingConfig(
                chains=config.population_size,
                steps=config.generations,
                temperature=config.temperature,
                random_share=config.random_share,
                early_stop=config.early_stop,
            ),
            per_round=config.handed_over,
            seed=config.seed,
            space=space,
            threads=threads,
        )
    return EvolutionarySampler(
        task,
        target,
        scorer=scorer,
        config=ExplorationConfig(
            population_size=config.population_size,
            generations=config.generations,
            mutation_probability=config.mutation_probability,
            random_share=config.random_share,
        ),
        per_round=config.handed_over,
        seed=config.seed,
        space=space,
        threads=threads,
    )


@derived_object
class CorrectedCostModel(ms.cost_model.PyCostModel):
    """A frozen cost model, corrected by what was measured of the one task that it serves.

    Fasor's high-quality mode goes on learning while it searches (section 6). Here the network stays as it is
    and a `ResidualModel` learns.
    """

    def __init__(self, frozen: ms.CostModel, likeness: Likeness) -> None:
        super().__init__()
        self._frozen = frozen
        self._likeness = likeness
        self._places: list[NDArray[np.float32]] = []
        self._scores: list[float] = []
        self._latencies_s: list[float] = []

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """Remembers the shortest latency of each candidate; one that failed stays out."""
        self._scores += [float(score) for score in self._frozen.predict(context, list(candidates))]
        self._places += list(self._likeness(candidates))
        self._latencies_s += [
            min((float(seconds) for seconds in result.run_secs or ()), default=math.inf) for result in results
        ]

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Scores [n] on the frozen model's scale: 1 is the best that the measurements imply."""
        scores: NDArray[np.float64] = self._frozen.predict(context, list(candidates))
        if not len(candidates) or not np.isfinite(self._latencies_s).any():
            return scores
        from .residual import ResidualModel  # imports parts of SciPy

        model = ResidualModel.fit(np.stack(self._places), np.array(self._scores), np.array(self._latencies_s))
        return model.corrected(self._likeness(candidates), scores)


class SearchSession:
    """A task that is searched: proposes candidates and learns what they measured."""

    def __init__(
        self,
        task: Task,
        target: Target,
        model: PretrainedCostModel,
        config: OneShotConfig,
        draft_model: DraftModel | None = None,
        threads: int | None = None,
    ) -> None:
        """Raises NoDesignSpaceError where the task has nothing to tune."""
        self._model = model
        self._likeness = Likeness(task.mod, model.hardware)
        scorer = CorrectedCostModel(model, self._likeness) if config.residual else model
        with model.clock.stage("design space"):
            self._sampler = make_sampler(
                task, target, scorer, config, draft_model=draft_model, threads=threads, clock=model.clock
            )
        self._open: dict[str, ms.MeasureCandidate] = {}
        """What was proposed and not measured."""
        self._known: set[str] = set()
        self._make_random = partial(
            RandomSampler, task, target, per_round=QUICK_PROPOSALS, seed=config.seed, threads=threads
        )
        self._at_random: RandomSampler | None = None

    def propose(self, quick: bool = False) -> list[Proposal]:
        """The candidates of the next round, none of which was proposed before; empty where none is left.

        They are `config.handed_over` at most. A `quick` round hardly searches: most of what tuning gains over
        plain loops is in any good program.
        """
        with self._model.clock.stage("replay and postprocessing"):
            if quick and isinstance(self._sampler, DraftSampler):
                proposed = self._sampler.propose_quickly(QUICK_PROPOSALS)
            else:
                proposed = self._draw_random() if quick else self._sampler.propose()
            if not proposed and (self._at_random or not self._known):
                proposed = self._draw_random()
        if not proposed:
            return []
        self._open |= dict(proposed)
        candidates = [candidate for _, candidate in proposed]
        # Who measures sees to what that tells: the frozen model's word is wanted.
        with linear_algebra_threads(1):
            scores = self._model.predict(self._sampler.context, candidates)
        with self._model.clock.stage("handing over"):
            rows = zip(proposed, scores.tolist(), self._likeness(candidates), strict=True)
            return [_proposal(*pair, score, place) for pair, score, place in rows]

    def _draw_random(self) -> list[tuple[str, ms.MeasureCandidate]]:
        """For a search that finds no population to begin with: most programs break the limits of a GPU."""
        self._at_random = self._at_random or self._make_random()
        self._at_random.know([*self._known, *self._open])
        found = self._at_random.propose()
        self._sampler.know(trace for trace, _ in found)
        return found

    def learn(self, latencies_s: dict[str, float]) -> None:
        """Takes measured latencies in seconds by trace (inf for a failure), also of traces found elsewhere.

        A trace that does not replay on the task is passed over.
        """
        known = {trace: self._open.pop(trace, None) for trace in latencies_s}
        for trace, candidate in known.items():
            known[trace] = candidate or replay(self._sampler.context, trace)
        self._sampler.know(latencies_s)
        self._known.update(latencies_s)
        measured = [(trace, candidate) for trace, candidate in known.items() if candidate is not None]
        outcomes = [
            MeasureOutcome((latencies_s[trace],)) if math.isfinite(latencies_s[trace]) else _FAILED
            for trace, _ in measured
        ]
        self._sampler.learn(measured, outcomes)


class FixedSession:
    """A task whose schedules leave nothing to decide: each is proposed once, and there is nothing to search.

    Such are the element-wise tasks of a CPU, whose loops run in parallel and in vectors with the one schedule
    that TVM has for them, and one after the other without.
    """

    def __init__(self, task: Task, target: Target) -> None:
        """Raises NoDesignSpaceError where no schedule changes how the task runs."""
        context = make_tune_context(task.mod, target, seed=0, name=task.name)
        with interrupts_deferred():
            spaces = list(context.generate_design_space())
        self._left: list[Proposal] = []
        for space in spaces:
            with contextlib.suppress(RefusedError):
                candidate = postprocessed(context, space)
                if any(instruction.kind.name in _PARALLEL for instruction in candidate.sch.trace.insts):
                    self._left.append(
                        _proposal(trace_to_json(candidate.sch.trace), candidate, 0.0, _NO_PLACE)
                    )
        if not self._left:
            raise NoDesignSpaceError(f"task={task.name}: no schedule of MetaSchedule's changes how it runs")

    def propose(self, quick: bool = False) -> list[Proposal]:
        """All of them at first, and then none; no model has rated them."""
        proposals, self._left = self._left, []
        return proposals

    def learn(self, latencies_s: dict[str, float]) -> None:
        """Leaves out what was measured before."""
        self._left = [proposal for proposal in self._left if proposal.trace not in latencies_s]


def _proposal(
    trace: str, candidate: ms.MeasureCandidate, score: float, place: NDArray[np.float32]
) -> Proposal:
    return Proposal(
        trace,
        record_json(candidate.sch.trace),
        candidate_module_json(candidate),
        score,
        place,
    )
