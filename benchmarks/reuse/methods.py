"""Compared searches of one task: the backend, ETO, ETO ranked by the model, with one-core programs, TopK."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foretune.compiler.task import Task
from foretune.dataset.measure import Executor
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.planners.base import TaskPlanner
from foretune.inference.planners.shares import LatencySharePlanner
from foretune.inference.reuse.config import EtoConfig
from foretune.inference.reuse.donors import Donor, ParentsBest
from foretune.inference.reuse.planner import ReusePlanner
from foretune.inference.reuse.rules import ChildBudget, ReuseRules, Selected
from foretune.inference.reuse.selection import GivenSelection
from foretune.inference.reuse.tree import ROOT, ReuseTree
from foretune.inference.search.candidate import MeasuredCandidate
from foretune.inference.search.checkpoint_fit import fitting_checkpoint
from foretune.inference.search.config import OneShotConfig, StopConfig
from foretune.inference.search.persistence import Ledger
from foretune.inference.search.tuner import NetworkTuner
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import ProgramAdapter
from foretune.inference.strategies.stock import StockConfig
from foretune.inference.workers.searchers import start_searchers
from foretune.models.checkpoints.shipped import AUTO
from tvm.target import Target

BACKEND, ETO, RANKED, ONE_CORE, TOP_K = METHODS = ("backend", "eto", "eto_ranked", "eto_one_core", "top_k")

BY_MODEL = {RANKED: 0.0, ONE_CORE: 5e5}
"""Operations of a task up to which a search ranked by the model also visits programs for one core."""

STOCK = StockConfig()
"""The backend's search: MetaSchedule's own."""

SMALL_STOCK = StockConfig(population_size=16, generations=1)
"""The backend's search in a rehearsal."""

RANKED_ROUND = 8
"""Candidates of a round of ETO ranked by the model."""


@dataclass(frozen=True)
class Searched:
    """One search of one task."""

    method: str
    latencies_s: list[float]
    """Latency of each measured program in order, inf for a failure."""
    seconds: float
    """Seconds of search and measurement."""
    measured: dict[str, float]
    """Latency in seconds of the programs that ran, by trace."""
    best: str | None
    """Module (JSON) of the fastest program, or None if no program ran."""
    by_backend: bool
    """Whether the backend searched it: always without a parent, and also if the parent did not help."""

    def summary(self) -> dict[str, Any]:
        """JSON values of the search without its programs."""
        best_s = min(self.latencies_s, default=math.inf)
        to_best = self.latencies_s.index(best_s) + 1 if math.isfinite(best_s) else len(self.latencies_s)
        return {
            "programs": len(self.latencies_s),
            "programs_to_best": to_best,
            "seconds": self.seconds,
            "seconds_to_best": self.seconds * to_best / max(len(self.latencies_s), 1),
            "best_s": best_s if math.isfinite(best_s) else None,
            "by_backend": self.by_backend,
        }


def searched(
    method: str,
    task: Task,
    target: Target,
    pool: Executor,
    *,
    trials: int,
    seed: int,
    donor: Donor | None = None,
    stock: StockConfig = STOCK,
) -> Searched:
    """Searches a task from an empty database; `donor` is its parent, which only the backend does not need.

    The search alternates with the measurements in this process, so nothing else runs during them.
    """
    config = replace(settings_of(method, trials, seed, stock), processes=0).fitted(target)
    checkpoint = fitting_checkpoint(AUTO, target) if method in BY_MODEL else None
    with tempfile.TemporaryDirectory() as folder:
        hardware = pool.hardware()
        searchers = start_searchers(config, target, checkpoint, hardware, most=1)
        try:
            database = TuningDatabase(Path(folder), target, hardware)
            planner = _planner(method, config, target, task, donor)
            tuner = _Keeping(config, pool, searchers, Ledger(database, config.rounds), planner=planner)
            (result,) = tuner.tune([task], [math.inf])
        finally:
            for searcher in searchers:
                searcher.close()
    known = tuner.known
    ran = {one.trace: one for one in known if math.isfinite(one.latency_s)}
    best = min(ran.values(), key=lambda one: one.latency_s, default=None)
    return Searched(
        method,
        [one.latency_s for one in known],
        result.search_s + result.measure_s,
        {trace: one.latency_s for trace, one in ran.items()},
        None if best is None else best.candidate.module,
        not result.parent,
    )


def settings_of(method: str, trials: int, seed: int, stock: StockConfig = STOCK) -> OneShotConfig:
    """Search of a method; the backend measures `trials` candidates, and the others at most as many."""
    eto = EtoConfig(trials=trials)
    if method in BY_MODEL:
        rounds = max(1, trials // 3 // RANKED_ROUND)
        return OneShotConfig(
            {
                "name": "reuse",
                "rank": "model",
                "backend": "draft",
                "one_core_flops": BY_MODEL[method],
            },
            rounds=rounds,
            top_k=rounds * RANKED_ROUND,
            finalists=0,
            seed=seed,
            stop=StopConfig(expected_improvement=0.003),
        )
    if method == ETO:
        return OneShotConfig(stock, reuse="paper", eto=eto, seed=seed).for_reuse()
    return replace(OneShotConfig(stock, reuse="top_k", eto=eto, seed=seed).for_reuse(), reuse="off")


def _planner(
    method: str, config: OneShotConfig, target: Target, task: Task, donor: Donor | None
) -> TaskPlanner:
    if donor is None or method == BACKEND:
        return LatencySharePlanner(config)
    parent = donor.task.workload_hash
    tree = ReuseTree({parent: ROOT, task.workload_hash: parent}, {})
    by_model = ChildBudget(config.per_round, starts=2, rounds=config.rounds, reused=1)
    child = {
        ETO: ChildBudget(config.per_round, starts=0, total=config.eto.trials, reused=1),
        RANKED: by_model,
        ONE_CORE: by_model,
        TOP_K: ChildBudget(starts=config.eto.top_k, search=False),
    }[method]
    return ReusePlanner(
        config,
        lambda tasks: Selected(GivenSelection(tree), library=[donor]),
        ParentsBest(ProgramAdapter(target, StockSpace(config.max_code))),
        ReuseRules(child),
    )


class _Keeping(NetworkTuner):
    """Tuner that returns its measurements."""

    @property
    def known(self) -> list[MeasuredCandidate]:
        """Measurements of the only task."""
        return self._searches[0].loop.known
