"""Program sampling: which candidates of a task are measured for the dataset.

Exploration-based sampling (EBS, One-Shot Tuner section 4.1.2 and Algorithm 1, lines 14-25) takes the samples
on the trajectory of a search: each round explores with the scorer, measures what it proposes and teaches the
scorer. The paper uses AutoTVM's simulated annealing; here the search is MetaSchedule's evolutionary one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..errors import UserError
from .interruption import interrupts_deferred
from .measure.job import MeasureOutcome
from .replay import candidate_trace_json
from .task import Task
from .tvm_compat import available_cores, design_spaces, make_tune_context


class SamplingError(UserError, ValueError):
    """A setting of program sampling cannot be."""


_FAILED_RUN_S = 1e10  # what MetaSchedule itself uses for a candidate without latency


@dataclass(frozen=True)
class ExplorationConfig:
    """Exploration-based sampling. Small populations keep the search in balance with the measurement."""

    population_size: int = 40
    generations: int = 2
    mutation_probability: float = 0.85
    # Share of a round drawn at random instead of by score, so that the dataset knows bad programs too.
    random_share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.random_share <= 1:
            raise SamplingError(f"exploration.random_share={self.random_share}: must be in [0, 1]")
        if self.population_size < 1 or self.generations < 0:
            raise SamplingError(
                f"exploration.population_size={self.population_size}, generations={self.generations}: "
                "need at least one program and no negative count"
            )


def make_scorer(name: str, warm_up: int) -> Callable[[], ms.CostModel]:
    """A factory of the cost model that guides exploration: `xgboost` (as in the paper) or `random`.

    XGBoost proposes at random until it has seen `warm_up` candidates.
    """
    if name == "xgboost":
        try:
            import xgboost  # noqa: F401
        except ImportError as error:
            raise SamplingError(
                "scorer=xgboost: xgboost is not installed; pip install 'foretune[xgboost]', "
                "or use scorer=random"
            ) from error
        return lambda: ms.cost_model.XGBModel(num_tuning_cores=1, num_warmup_samples=warm_up)
    if name == "random":
        return ms.cost_model.RandomModel
    raise SamplingError(f"scorer={name!r}: use xgboost or random")


class ProgramSampler:
    """Proposes candidates of one task round by round and learns from their outcomes."""

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        scorer: ms.CostModel,
        config: ExplorationConfig,
        per_round: int,
        seed: int,
        threads: int | None = None,
    ) -> None:
        """`threads` replay candidates, by default one a core; see `make_tune_context`.

        Raises NoDesignSpaceError where the task has nothing to tune.
        """
        search = ms.search_strategy.EvolutionarySearch(
            population_size=config.population_size,
            genetic_num_iters=config.generations,
            genetic_mutate_prob=config.mutation_probability,
            init_min_unmeasured=min(50, config.population_size),
            eps_greedy=config.random_share,
        )
        self.context = make_tune_context(
            task.mod,
            target,
            seed=seed,
            strategy=search,
            name=task.name,
            threads=threads or available_cores(),
        )
        self.scorer = scorer
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self.context.mod)
        self._target = target
        self._proposed: set[str] = set()
        self.context.pre_tuning(
            max_trials=2**31 - 1,
            num_trials_per_iter=per_round,
            design_spaces=design_spaces(self.context, task.name),
            database=self._database,
            cost_model=scorer,
        )

    def propose(self) -> list[tuple[str, ms.MeasureCandidate]]:
        """The next round as (trace JSON, candidate); empty when the space is exhausted."""
        fresh = []
        with interrupts_deferred():
            candidates = list(self.context.generate_measure_candidates() or [])
        for candidate in candidates:
            trace = candidate_trace_json(candidate)
            if trace not in self._proposed:
                self._proposed.add(trace)
                fresh.append((trace, candidate))
        return fresh

    def learn(
        self, measured: Sequence[tuple[str, ms.MeasureCandidate]], outcomes: Sequence[MeasureOutcome]
    ) -> None:
        """Tells the search and its scorer what was measured (Algorithm 1, line 24)."""
        self._proposed.update(trace for trace, _ in measured)
        candidates = [candidate for _, candidate in measured]
        results = []
        for candidate, outcome in zip(candidates, outcomes, strict=True):
            run_secs = list(outcome.run_secs) or [_FAILED_RUN_S]
            results.append(
                ms.runner.RunnerResult(
                    run_secs=list(outcome.run_secs) or None, error_msg=outcome.message or None
                )
            )
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace, self._workload, run_secs, self._target, candidate.args_info
                )
            )
        if candidates:
            with interrupts_deferred():
                self.scorer.update(self.context, candidates, results)


def best_latency_s(outcomes: Sequence[MeasureOutcome]) -> float:
    """Shortest latency among outcomes in seconds, infinite when all failed."""
    return min((outcome.latency_s for outcome in outcomes), default=float("inf"))
