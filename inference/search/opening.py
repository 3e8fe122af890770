"""Opening of a run's tasks, and the check whether a run has anything to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compiler.networks.alternatives.alternatives import Offer, offered_tasks
from ...compiler.task import Task
from ..database.predicted_schedules import PredictedSchedules
from ..database.tuning_database import TuningDatabase
from ..families.registry import family_of
from ..planners.base import TaskPlanner
from ..planners.turn_planner import make_planner
from ..surrogate.shared import Surrogates
from .alternatives import Contests, compared_s, preferred
from .config import OneShotConfig
from .loop import SearchLoop
from .persistence import Ledger
from .task_search import TaskSearch


def opened_searches(
    tasks: Sequence[Task],
    config: OneShotConfig,
    planner: TaskPlanner,
    ledger: Ledger,
    offers: Sequence[Offer] = (),
) -> tuple[list[TaskSearch], Contests]:
    """Opens one search per task with the findings of earlier runs, and passes the searches to the planner.

    Tasks of `offers` must be among `tasks`.
    """
    surrogates = Surrogates()
    remembered: set[str] = set()
    searches = []
    for task in tasks:
        family = family_of(task, config.families)
        group = planner.surrogate_group(task) or (family if config.share_surrogate else "")
        if group and group not in remembered:
            remembered.add(group)
            for workload, programs in ledger.memory.programs(group).items():
                surrogates.of(workload, group).learn(*zip(*programs, strict=True))
        surrogate = surrogates.of(task.workload_hash, group)
        search = TaskSearch(task, SearchLoop(config.stop, config.finalists, surrogate), family, group)
        ledger.take_up(search)
        searches.append(search)
    contests = Contests(offers, searches, measured=config.measure)
    contests.give_up(config.rounds)
    contests.end_beaten()
    if not config.measure:
        _end_unexpected(searches, offers)
    planner.begin(searches)
    contests.leave_out(planner.resized_s, config.rounds)
    return searches, contests


def needed_tasks(
    tasks: Sequence[Task], offers: Sequence[Offer], latency_s: Callable[[str], float | None]
) -> list[Task]:
    """Tasks that a network calls with its preferred alternatives, including the tasks of the alternatives."""
    left = {task.workload_hash: task.weight for task in tasks}
    taken: list[Task] = []
    for offer in preferred(offers, latency_s):
        if all(left[name] >= offer.calls for name in offer.replaces):
            taken += offer.tasks
            for name in offer.replaces:
                left[name] -= offer.calls
    return [*(task for task in tasks if left[task.workload_hash]), *taken]


def _end_unexpected(searches: Sequence[TaskSearch], offers: Sequence[Offer]) -> None:
    """Ends searches of tasks that a run without measurements does not call, by the expected gains.

    No search ends if a task has a schedule of an earlier run: its latency may decide otherwise.
    """
    if any(search.known_s is not None for search in searches):
        return
    tasks = [search.task for search in searches if search.task.weight]
    called = needed_tasks(tasks, offers, compared_s(offers, lambda _: None, measured=False))
    names = {task.workload_hash for task in called}
    for search in searches:
        if search.task.workload_hash not in names and not search.over:
            search.beat()


def anything_due(
    tasks: Sequence[Task],
    config: OneShotConfig,
    database: TuningDatabase,
    planner: TaskPlanner | None = None,
    *,
    retune: bool = False,
    predicted: PredictedSchedules | None = None,
    offers: Sequence[Offer] = (),
    untuned: bool = True,
) -> bool:
    """Whether a run has a round to search or, with `untuned`, an untuned task to measure.

    `planner` is a new planner, by default the one that `config.planner` selects. `offers` are alternatives to
    the tasks.
    """
    ledger = Ledger(database, config.rounds, retune=retune, predicted=predicted)
    if untuned and config.measure and any(ledger.untuned_s(task) is None for task in tasks):
        return True
    planner = planner or make_planner(config)
    every = [*tasks, *offered_tasks(tasks, offers), *planner.further_tasks(tasks)]
    searches, _ = opened_searches(every, config, planner, ledger, offers=offers)
    return planner.next_round([search for search in searches if not search.over], []) is not None
