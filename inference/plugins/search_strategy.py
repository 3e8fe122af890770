"""`OneShotStrategy`: Foretune's search as the search strategy of stock MetaSchedule tuning."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ...compiler.described_task import described_task
from ...compiler.targets import is_cpu
from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError, load_tensor_intrinsics, parse_target, target_to_json
from ...dataset.hardware import Hardware
from ...dataset.hardware.target_hardware import target_hardware
from ...dataset.measure import MeasureOutcome
from ...dataset.records.schema import FailureKind
from ...dataset.sampling.programs import LivePrograms
from ..planners.config import PlannerConfig
from ..planners.shares import LatencySharePlanner
from ..search.config import OneShotConfig, OneShotConfigError
from ..search.loop import CandidateBatch, SearchLoop
from ..search.session import FixedSession, SearchSession, Session, SessionResources
from ..search.task_search import TaskSearch
from ..strategies.draft.model import DraftModel
from ..strategies.registry import strategy_class
from ..surrogate.shared import own_surrogate

_LOG = logging.getLogger(__name__)

_OF_NETWORKS = (
    *("measure", "propose", "min_latency_share", "processes", "overlap", "reuse", "auto", "eto"),
    *("planner", "families", "share_surrogate", "templates", "template_margin", "tile_profile"),
    *("starts", "pretuned", "space", "sub_space", "max_code"),
)
"""Settings of `foretune tune` that have no equivalent in stock tuning."""


@derived_object
class OneShotStrategy(ms.search_strategy.PySearchStrategy):
    """Search of a task in rounds, for `ms.tune_tir`, `tune_relax` and `tune_tasks`.

    ```python
    from foretune.inference import OneShotConfig, OneShotStrategy, PretrainedCostModel

    database = ms.tune_tir(
        mod, target, work_dir, max_trials_global=64,
        cost_model=PretrainedCostModel.load("cpu"),
        strategy=OneShotStrategy(OneShotConfig(strategy="annealing", rounds=1, top_k=64)),
    )
    ```

    Stock tuning of networks in Relax uses the strategy without changes, and the schedules come out as always:

    ```python
    database = ms.relax_integration.tune_relax(
        mod, {}, target, work_dir, max_trials_global=1000,
        cost_model=PretrainedCostModel.load("cpu"), strategy=OneShotStrategy(),
    )
    with target, database:
        tuned = relax.transform.MetaScheduleApplyDatabase()(mod)
    ```

    MetaSchedule's own strategies search until the trials are spent. This strategy measures up to `top_k`
    candidates per task in `rounds`, subject to `stop`, remeasures `finalists` and then ends (One-Shot Tuner
    section 4.2). Set `max_trials_global` generously: if trials are few, the first tasks spend them all. The
    search uses the cost model and the space generator of the tuning. A design space without decisions, such
    as a fixed schedule, has its program measured once. Each task is treated alone, without known programs.
    Settings of measuring, scheduling, reuse, starts, templates and design spaces are therefore
    refused unless they have their defaults.
    """

    def __init__(self, config: OneShotConfig | None = None, draft_model: DraftModel | None = None) -> None:
        """`draft_model` serves the strategy `draft` for every task.

        None loads the draft model that `config.strategy.checkpoint` names, for this machine's CPU as the
        target uses it. A target that no checkpoint fits is searched by evolution. Raises OneShotConfigError
        for a setting that stock tuning cannot honour.
        """
        super().__init__()
        load_tensor_intrinsics()  # see PretrainedCostModel
        self.config = config or OneShotConfig()
        _refuse_settings_of_networks(self.config)
        self._draft_model = draft_model
        self._context: ms.TuneContext | None = None
        self._reset()

    def _reset(self) -> None:
        self._session: Session | None = None
        self._search: TaskSearch | None = None
        self._planner = LatencySharePlanner(self.config)
        self._left = 0
        self._batch: CandidateBatch | None = None
        self._programs: LivePrograms = {}
        """Programs of all candidates of the task; the finalists of a round may come from earlier rounds."""

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        """MetaSchedule calls this several times; the last context counts."""
        self._context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: ms.database.Database | None = None,
        cost_model: ms.CostModel | None = None,
    ) -> None:
        """Starts the search of the context's task.

        Raises ValueError without a cost model, and the errors of `OneShotConfig.fitted`.
        """
        if cost_model is None:
            raise ValueError("OneShotStrategy searches with a cost model: give cost_model=")
        assert self._context is not None
        context = self._context
        self._reset()
        task = described_task(context.mod, context.task_name or "")
        if self._draft_model is None:
            config, resources, hardware = _fitted(self.config, target_to_json(context.target))
        else:
            config, resources, hardware = self.config, self._draft_model, self._draft_model.hardware
        shared = SessionResources(
            cost_model, config, hardware, of_strategy=resources, threads=context.num_threads
        )
        try:
            self._session = _opened(task, context, shared)
        except NoDesignSpaceError as error:  # stock tuning, too, goes on with the other tasks
            _LOG.warning("%s; the task keeps its plain loops", error)
            return
        self._left = max_trials
        self._search = TaskSearch(task, SearchLoop(config.stop, config.finalists, own_surrogate()))
        self._planner.begin([self._search])

    def post_tuning(self) -> None:
        """Releases the search."""
        self._reset()

    def generate_measure_candidates(self) -> list[ms.MeasureCandidate] | None:
        """The candidates to measure next; None when the search is over."""
        while self._search is not None and self._left > 0:
            if (batch := self._search.loop.next_batch()) is not None:
                self._batch = replace(batch, candidates=batch.candidates[: self._left])
                self._left -= len(self._batch.candidates)
                return [self._programs[candidate.trace] for candidate in self._batch.candidates]
            if not self._start_round(self._search):
                break
        return None

    def notify_runner_results(
        self, measure_candidates: Sequence[ms.MeasureCandidate], results: Sequence[ms.runner.RunnerResult]
    ) -> None:
        """Processes the outcomes of the last proposed batch."""
        if self._search is None or self._batch is None:
            return
        self._search.loop.learn(self._batch, [_outcome(result) for result in results])
        self._batch = None

    def clone(self) -> OneShotStrategy:
        """A strategy with the same settings, for another task."""
        return OneShotStrategy(self.config, self._draft_model)

    def _start_round(self, search: TaskSearch) -> bool:
        """Ends the last round and starts the next; returns whether there is a next round."""
        assert self._session is not None
        if search.rounds:
            search.round_ends(search.loop.measured_in_round, complete=True, all_rounds=self.config.rounds)
            self._session.learn(search.flight.untold)
            search.flight.untold = {}
        planned = None if search.over else self._planner.next_round([search], [])
        if planned is None:
            return False
        search.flight.budget = replace(planned.budget, measured=min(planned.budget.measured, self._left))
        candidates = self._session.propose(search.flight.budget)
        self._programs |= {one.trace: self._session.known.program(one.trace) for one in candidates}
        search.round_begins()
        search.loop.start_round(candidates, search.flight.budget)
        return True


def _opened(task: Task, context: ms.TuneContext, shared: SessionResources) -> Session:
    """Session of the context's task and design space; raises NoDesignSpaceError."""
    space = context.space_generator
    try:
        return SearchSession(task, context.target, shared, space=space)
    except NoDesignSpaceError:
        return FixedSession(task, context.target, space=space, keeps_unchanged=True)


def _outcome(result: ms.runner.RunnerResult) -> MeasureOutcome:
    """Outcome of a stock runner. Times that are no number or negative count as a failure."""
    seconds = tuple(float(second) for second in result.run_secs or ())
    if seconds and all(math.isfinite(second) and second >= 0 for second in seconds):
        return MeasureOutcome(seconds)
    message = f"run_secs={list(seconds)}: not times" if seconds else str(result.error_msg)
    return MeasureOutcome(failure=FailureKind.RUN_ERROR, message=message)


def _refuse_settings_of_networks(config: OneShotConfig) -> None:
    defaults = OneShotConfig()
    for name in _OF_NETWORKS:
        value, default = getattr(config, name), getattr(defaults, name)
        if value != default:
            raise OneShotConfigError(
                f"search.{name}={_shown(value)}: stock tuning sees to that itself; leave "
                f"search.{name}={_shown(default)}, or use foretune.inference.tune_tasks"
            )


def _shown(value: object) -> object:
    """A setting in the user's form: the name of a planner instead of its settings."""
    return value.name if isinstance(value, PlannerConfig) else value


@lru_cache(maxsize=8)  # once for all tasks of a target
def _fitted(config: OneShotConfig, target: str) -> tuple[OneShotConfig, object, Hardware | None]:
    """The settings for a target, the resources of their strategy, and the device if it is known."""
    found = parse_target(target)
    config = config.fitted(found)
    if is_cpu(found):
        hardware = target_hardware(found)
        return config, strategy_class(config.strategy.name).load(config.strategy, hardware), hardware
    if config.strategy_class.takes_draft_model:
        raise OneShotConfigError(
            f"search.strategy.checkpoint={config.strategy.checkpoint}: the device of {found.kind.name} "
            "targets is not known here; give draft_model=DraftModel.load(checkpoint, hardware)"
        )
    return config, None, None
