"""The tuner of a network with searchers and devices that do as told: order, limits, deaths, what is kept."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import tvm
from foretune.compiler.codegen.objects import ObjectFiles
from foretune.compiler.operators import Dense, to_task
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.measure.machine_errors import DevicesLostError
from foretune.dataset.measure.worker.losses import WorkersKilledError
from foretune.dataset.measure.worker.process import WorkerLostError
from foretune.dataset.records.schema import FailureKind
from foretune.inference.planners.base import Round
from foretune.inference.run.profiling import StageClock
from foretune.inference.search.config import OneShotConfig, StopConfig
from foretune.inference.search.limits import Limits
from foretune.inference.search.loop import RoundBudget, SearchLoop
from foretune.inference.search.opening import anything_due
from foretune.inference.search.supervision import SearchSupervisor
from foretune.inference.search.task_search import TaskSearch
from foretune.inference.starts.base import Start, StartSource
from foretune.inference.surrogate.shared import own_surrogate
from foretune.inference.workers.messages import RoundReply
from support.fake_executor import FakeExecutor
from support.searchers import (
    TASKS,
    UNTUNED_S,
    FakeDatabase,
    FakeSearcher,
    latency_of_module,
    made_up,
    measuring_into,
    network_tuner,
    tuner_of,
)


def test_the_largest_share_goes_first_and_each_task_gets_its_rounds():
    searcher, database = FakeSearcher(), FakeDatabase()
    tuner = tuner_of(searcher, database)
    results = tuner.tune(TASKS, UNTUNED_S)
    # All have a first round before any has a second one; then they take the same, and operations decide.
    assert searcher.order == [1, 2, 0, 2, 1, 0]
    assert [result.tuned_latency_s for result in results] == [0.003] * 3
    assert [result.candidates_measured for result in results] == [4] * 3
    assert [result.candidates_scored for result in results] == [20] * 3
    assert [latency for _, latency in tuner.curve] == pytest.approx(
        [0.060, 0.034, 0.018, 0.012, 0.011, 0.010, 0.009]
    )
    assert len(database.committed) == 12  # each program once
    assert tuner.tuned == 3


@pytest.mark.parametrize("breadth_first", [False, True])
@pytest.mark.parametrize(
    ("rounds", "wanted"),
    [
        (((0.004, 0.006), (0.003, 0.005)), {0.003, 0.004}),
        (((0.003, 0.006), (0.004, 0.005)), {0.003}),
    ],
)
def test_the_object_file_of_a_program_that_is_the_fastest_so_far_is_kept(breadth_first, rounds, wanted):
    measured, asked = [], []
    executor = measuring_into(measured)
    executor.object_file = lambda job: asked.append(float(job.module))
    tuner = network_tuner(
        OneShotConfig(rounds=2, top_k=4),
        executor,
        [FakeSearcher(rounds)],
        FakeDatabase(),
        limits=Limits(breadth_first=breadth_first),
        objects=ObjectFiles(),
    )
    tuner.tune(TASKS, UNTUNED_S)
    assert len(asked) >= len(TASKS) and set(asked) == wanted
    assert all(job.keep_built for job in measured)


@pytest.mark.parametrize(
    ("min_latency_share", "rounds"),
    [(0.0, [4, 4, 4]), (0.3, [1, 4, 4]), (0.5, [1, 3, 4]), (1.0, [1, 2, 2]), (10.0, [1, 1, 1])],
)
def test_what_takes_little_of_the_network_gets_few_rounds(min_latency_share, rounds):
    """An even share of 1, 10 and 12 ms is 7.7 ms: they are 0.13, 1.3 and 1.6 of it."""
    latencies_s = dict(zip((task.workload_hash for task in TASKS), (0.001, 0.010, 0.012), strict=True))

    class Steady(FakeSearcher):
        def reply(self):
            self.latencies_s = ((latencies_s[self.requests[-1].key],),)
            return super().reply()

    searcher, database = Steady(), FakeDatabase()
    config = OneShotConfig(rounds=4, top_k=4, min_latency_share=min_latency_share, stop=StopConfig(minimum=4))
    told = []
    tuner_of(
        searcher, database, config=config, on_progress=lambda name, done: told.append((name, done))
    ).tune(TASKS, [1.0] * 3)
    assert [searcher.order.count(number) for number in range(3)] == rounds
    assert [database.unfinished[task.workload_hash] or 4 for task in TASKS] == rounds
    assert [name for name, _ in told] == [TASKS[number].name for number in searcher.order]
    done = [share for _, share in told]
    assert done == sorted(done)
    assert done[-1] == 1


def test_a_task_that_is_tuned_alone_gets_all_rounds():
    searcher = FakeSearcher()
    config = OneShotConfig(rounds=4, top_k=4, min_latency_share=10.0, stop=StopConfig(minimum=4))
    tuner_of(searcher, config=config).tune(TASKS[:1], [1.0])
    assert searcher.order == [0] * 4


def test_the_untuned_are_measured_during_the_first_searches():
    measured = []
    searcher = FakeSearcher()
    untuned = dict(zip((tvm.ir.save_json(task.mod) for task in TASKS), UNTUNED_S, strict=True))

    def measure(job):
        measured.append(job.module in untuned)
        return MeasureOutcome((untuned[job.module],)) if job.module in untuned else latency_of_module(job)

    tuner = network_tuner(
        OneShotConfig(rounds=2, top_k=4), FakeExecutor(measure, measure), [searcher], FakeDatabase()
    )
    results = tuner.tune(TASKS)
    assert [result.untuned_latency_s for result in results] == UNTUNED_S
    assert [result.tuned_latency_s for result in results] == [0.003] * 3
    assert searcher.order[:3] == [2, 1, 0]  # by their operations
    assert measured[:3] == [True] * 3
    assert not any(measured[3:])
    assert tuner.curve[0][1] == pytest.approx(sum(UNTUNED_S))


def test_tasks_that_cannot_win_untuned_are_timed_without_a_schedule_after_the_search():
    heavy = to_task(Dense(rows=128, in_features=128, out_features=32))  # 2 * 128 * 128 * 32 operations > 1e6
    untuned_s = {tvm.ir.save_json(TASKS[0].mod): 0.010, tvm.ir.save_json(heavy.mod): 0.5}
    measured = []

    def measure(job):
        measured.append(job.module)
        if job.module in untuned_s:
            return MeasureOutcome((untuned_s[job.module],))
        return latency_of_module(job)

    database = FakeDatabase()
    tuner = network_tuner(
        OneShotConfig(rounds=1, top_k=2),
        FakeExecutor(measure, measure),
        [HeavySearcher()],
        database,
    )
    results = tuner.tune([TASKS[0], heavy])
    assert tuner.leaves_untuned and tvm.ir.save_json(heavy.mod) not in measured
    assert [task.untuned_latency_s for task in results] == [0.010, None]
    assert [task.tuned_latency_s for task in results] == [0.004, 0.004]
    assert math.isinf(tuner.curve[0][1]) and tuner.curve[-1][1] == pytest.approx(0.008)
    database.known[heavy.workload_hash] = 0.004
    assert anything_due([heavy], OneShotConfig(rounds=1), database)
    assert not anything_due([heavy], OneShotConfig(rounds=1), database, untuned=False)

    assert tuner.time_untuned(lambda: False) == {}
    assert tuner.time_untuned() == {heavy.workload_hash: 0.5}
    assert measured[-1] == tvm.ir.save_json(heavy.mod)
    assert tuner.curve[0][1] == pytest.approx(0.510)  # as if it had been measured first
    assert database.notes.untuned_s(heavy) == 0.5
    assert not anything_due([heavy], OneShotConfig(rounds=1), database)


class HeavySearcher(FakeSearcher):
    """Proposes one program of 4 ms for each request."""

    def reply(self):
        return RoundReply((made_up(f"{self.requests[-1].key} {len(self.requests)}", 0.004, 1.0),))


def test_searches_are_held_back_from_the_untuned_too():
    held, measured = [], []

    @contextmanager
    def around():
        held.append(True)
        yield
        held.clear()

    def measure(job):
        measured.append(bool(held))
        return MeasureOutcome((0.01,))

    tuner = network_tuner(
        OneShotConfig(rounds=1, top_k=2),
        FakeExecutor(measure, measure),
        [FakeSearcher()],
        FakeDatabase(),
        around_measuring=around,
    )
    tuner.tune(TASKS)
    assert len(measured) > 3 and all(measured)


def test_an_untuned_task_that_cannot_be_measured_ends_the_run():
    def fail(job):
        raise RuntimeError("no device")

    tuner = network_tuner(OneShotConfig(), FakeExecutor(fail, fail), [FakeSearcher()], FakeDatabase())
    with pytest.raises(RuntimeError, match="no device"):
        tuner.tune(TASKS)


def test_a_searcher_gets_a_task_once_and_then_what_was_measured():
    searcher = FakeSearcher()
    tuner_of(searcher).tune(TASKS[:1], UNTUNED_S[:1])
    first, second = searcher.requests
    assert first.task is TASKS[0]
    assert first.learned == {}
    assert second.task is None
    key = TASKS[0].workload_hash
    assert second.learned == {f"{key} 0 0": 0.004, f"{key} 0 1": 0.006}


def test_a_task_stays_with_the_searcher_that_knows_it():
    searchers = [FakeSearcher(), FakeSearcher()]
    config = OneShotConfig(rounds=2, top_k=4, extra_rounds=1)
    tuner = network_tuner(config, measuring_into([]), searchers, FakeDatabase())
    tuner.tune(TASKS[:2], UNTUNED_S[:2])
    assert [searcher.order for searcher in searchers] == [[1, 1, 1], [0, 0, 0]]
    for searcher in searchers:
        assert [request.task is not None for request in searcher.requests] == [True, False, False]


def test_an_idle_searcher_takes_over_from_a_busy_one():
    first, second = FakeSearcher(), FakeSearcher()
    mine, other = searches = [
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate())) for task in TASKS[:2]
    ]
    for search in searches:
        search.round_begins()
        search.flight.searcher = first
    supervisor = SearchSupervisor([first, second], searches)
    assert supervisor.choices(1) == ([], [])  # the one that knows them is idle, too
    supervisor.ask(0, Round(mine, RoundBudget(1)))
    assert supervisor.idle() == [1]
    assert supervisor.choices(1) == ([], [other])


@pytest.mark.parametrize(
    ("budget", "is_child", "first"),
    [
        (RoundBudget(8), False, 4),
        (RoundBudget(4), False, 2),
        (RoundBudget(8), True, 4),
        (RoundBudget(4), True, 2),
        (RoundBudget(4, search=False), False, 3),
        (RoundBudget(1, search=False), True, 0),
    ],
)
def test_templates_leave_room_for_other_programs(budget, is_child, first):
    class Templates(StartSource):
        def starts(self, task):
            return [Start(f"template {number}") for number in range(4)]

    searcher = FakeSearcher()
    search = TaskSearch(TASKS[0], SearchLoop(StopConfig(), 0, own_surrogate()))
    supervisor = SearchSupervisor([searcher], [search], [Templates()])
    supervisor.ask(0, Round(search, budget, starts=("adapted",), is_child=is_child))
    expected = (*(f"template {number}" for number in range(first)), "adapted")
    assert searcher.requests[0].starts == expected


@pytest.mark.parametrize(
    ("first", "is_child", "rounds"),
    [
        (RoundBudget(8), False, [["t0", "t1", "t2", "t3"], ["p0", "p1"], []]),
        (RoundBudget(4, quick=True), False, [["t0", "t1"], ["t2", "t3", "p0", "p1"], []]),
        (RoundBudget(2, quick=True), True, [["t0"], ["t1", "t2", "t3", "p0"], ["p1"]]),
        (RoundBudget(4), True, [["t0", "t1"], [], []]),
    ],
)
def test_starts_without_room_in_the_first_round_come_in_later_ones(first, is_child, rounds):
    class Starts(StartSource):
        def __init__(self, *traces):
            self.traces = traces

        def starts(self, task):
            return [Start(trace) for trace in self.traces]

    searcher = FakeSearcher()
    search = TaskSearch(TASKS[0], SearchLoop(StopConfig(), 0, own_surrogate()))
    supervisor = SearchSupervisor([searcher], [search], [Starts("t0", "t1", "t2", "t3"), Starts("p0", "p1")])
    for planned in (Round(search, first, is_child=is_child), *[Round(search, RoundBudget(8))] * 2):
        supervisor.ask(0, planned)
        assert [of for of, _ in supervisor.replies()] == [search]
        search.round_begins()
    assert [list(request.starts) for request in searcher.requests] == rounds


def test_starts_of_a_round_whose_search_process_died_come_in_the_next_one():
    class Starts(StartSource):
        def starts(self, task):
            return [Start(trace) for trace in ("t0", "t1", "t2")]

    gone = WorkerLostError(FailureKind.WORKER_DIED, "killed by signal 11")
    searcher = FakeSearcher(replies=[None, gone])
    search = TaskSearch(TASKS[0], SearchLoop(StopConfig(), 0, own_surrogate()))
    supervisor = SearchSupervisor([searcher], [search], [Starts()])
    for _ in range(3):
        supervisor.ask(0, Round(search, RoundBudget(2)))
        if [*supervisor.replies()]:
            search.round_begins()
    assert [list(request.starts) for request in searcher.requests] == [["t0"], ["t1"], ["t1"]]


def test_a_start_that_is_taken_alone_needs_no_search():
    class Templates(StartSource):
        def starts(self, task):
            own = [Start("template", alone=True)] if task is TASKS[0] else []
            return [Start("known", 0.5), *own, Start("pretuned")]

    searcher = FakeSearcher()
    searches = [TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate())) for task in TASKS[:2]]
    supervisor = SearchSupervisor([searcher], searches, [Templates()])
    for search in searches:
        supervisor.ask(0, Round(search, RoundBudget(4)))
    alone, searched = searcher.requests
    assert (alone.starts, alone.budget.search, alone.learned) == (("template",), False, {"known": 0.5})
    assert (searched.starts, searched.budget.search) == (("pretuned",), True)


def test_a_failure_is_told_and_a_task_without_a_program_says_so():
    searcher = FakeSearcher(latencies_s=((math.inf, math.inf),))
    database = FakeDatabase()
    (result,) = tuner_of(searcher, database).tune(TASKS[:1], UNTUNED_S[:1])
    assert list(searcher.requests[1].learned.values()) == [math.inf, math.inf]
    assert result.reason == "no candidate ran"
    assert result.tuned_latency_s is None
    assert result.candidates_failed == 4
    assert database.committed == []


def test_what_is_slower_than_untuned_is_not_kept():
    database = FakeDatabase()
    (result,) = tuner_of(FakeSearcher(), database).tune(TASKS[:1], [0.002])
    assert result.reason == "untuned is faster"
    assert result.tuned_latency_s is None
    assert database.committed == []


def test_the_database_serves_what_it_knows():
    known = {TASKS[1].workload_hash: 0.001}
    searcher = FakeSearcher()
    results = tuner_of(searcher, FakeDatabase(known)).tune(TASKS, UNTUNED_S)
    assert searcher.order == [2, 0, 2, 0]
    assert results[1].from_database
    assert results[1].tuned_latency_s == 0.001
    again = FakeSearcher()
    tuner_of(again, FakeDatabase(known), retune=True).tune(TASKS, UNTUNED_S)
    assert again.order == [1, 2, 0, 2, 1, 0]


@pytest.mark.parametrize(("untuned_s", "kept"), [(0.010, [0.003, 0.004, 0.005, 0.006]), (0.001, [])])
def test_retuning_replaces_what_earlier_runs_kept(untuned_s, kept):
    """An earlier run measured 1 ns, as a wrong program may take."""
    task, other = TASKS[:2]
    database = FakeDatabase({task.workload_hash: 1e-9})
    earlier = [(one.workload_hash, 1e-9) for one in (task, other)]
    database.committed = [*earlier]
    (result,) = tuner_of(FakeSearcher(), database, retune=True).tune([task], [untuned_s])
    assert result.tuned_latency_s == (0.003 if kept else None)
    found = {name: [s for key, s in database.committed if key == name] for name, _ in earlier}
    assert sorted(found[task.workload_hash]) == kept
    assert found[other.workload_hash] == [1e-9]


@pytest.mark.parametrize(
    ("searcher", "untuned_s", "reason"),
    [
        (FakeSearcher(), 0.002, "untuned is faster"),
        (FakeSearcher(replies=[RoundReply(nothing_to_tune=True)]), 0.5, "nothing to tune"),
    ],
)
def test_a_task_that_ended_without_a_schedule_is_not_searched_again(searcher, untuned_s, reason):
    database = FakeDatabase()
    tuner_of(searcher, database).tune(TASKS[:1], [untuned_s])
    again = FakeSearcher()
    (result,) = tuner_of(again, database).tune(TASKS[:1], [untuned_s])
    assert (again.order, result.reason, result.tuned_latency_s) == ([], reason, None)
    assert not anything_due(TASKS[:1], OneShotConfig(), noted(database, [untuned_s]))
    tuner_of(again, database, retune=True).tune(TASKS[:1], [0.5])
    assert again.order == [0, 0]
    assert database.notes.ended(TASKS[0]) == ""  # it has one now


def test_a_run_that_a_limit_stops_ends_no_task():
    database = FakeDatabase()
    tuner_of(FakeSearcher(), database, limits=Limits(latency_target_s=1.0)).tune(TASKS[:1], [0.002])
    assert database.notes.ended(TASKS[0]) == ""


GONE = WorkerLostError(FailureKind.WORKER_DIED, "killed by signal 11")


@pytest.mark.parametrize(
    ("searcher", "limits", "reason"),
    [
        (FakeSearcher(), None, "untuned is faster"),
        (FakeSearcher(replies=[RoundReply(nothing_to_tune=True)]), None, "nothing to tune"),
        (FakeSearcher(((math.inf,),)), None, "no candidate ran"),
        (FakeSearcher(replies=[RoundReply(), RoundReply()]), None, "no candidate was found"),
        (FakeSearcher(replies=[GONE, GONE]), None, "the search process died: killed by signal 11"),
        (FakeSearcher(), Limits(latency_target_s=1.0), "the network reaches latency_target_s without it"),
        (FakeSearcher(), Limits(in_time=lambda: False), ""),  # nobody has decided anything
    ],
)
def test_what_a_run_leaves_without_a_schedule_is_noted_and_holds_for_a_run_that_only_reads(
    searcher, limits, reason
):
    database = FakeDatabase()
    (result,) = tuner_of(searcher, database, limits=limits).tune(TASKS[:1], [0.002])
    assert result.tuned_latency_s is None
    assert database.notes.left(TASKS[0]) == reason
    only_reads = tuner_of(FakeSearcher(), database, searches=False, limits=Limits(in_time=lambda: False))
    (again,) = only_reads.tune(TASKS[:1], [0.002])
    assert again.reason == (reason or "the limits of the run left no time for it")
    tuner_of(FakeSearcher(), database, retune=True).tune(TASKS[:1], [0.5])
    assert database.notes.left(TASKS[0]) == ""  # it has a schedule now


def noted(database, untuned_s):
    """The database with these untuned latencies."""
    for task, seconds in zip(TASKS, untuned_s, strict=False):
        database.notes.note_untuned(task, seconds)
    return database


def test_an_untuned_latency_that_is_known_is_not_measured_again():
    measured = []
    database = noted(
        FakeDatabase(dict.fromkeys((task.workload_hash for task in TASKS), 0.001)), [0.5, math.inf]
    )

    def measure(job):
        measured.append(job)
        return MeasureOutcome((0.25,))

    tuner = network_tuner(OneShotConfig(), FakeExecutor(measure, measure), [FakeSearcher()], database)
    results = tuner.tune(TASKS)
    assert [job.task for job in measured] == [TASKS[2].workload_hash]
    assert [result.untuned_latency_s for result in results] == [0.5, None, 0.25]
    assert database.notes.untuned_s(TASKS[2]) == 0.25
    assert tuner.curve[0][1] == pytest.approx(0.003)
    assert not anything_due(TASKS, OneShotConfig(), database)
    assert anything_due(TASKS, OneShotConfig(), database, retune=True)


@pytest.mark.parametrize(
    ("unfinished", "config", "due"),
    [(None, OneShotConfig(), False), (1, OneShotConfig(), True), (None, OneShotConfig(extra_rounds=1), True)],
)
def test_a_round_that_is_left_is_due(unfinished, config, due):
    key = TASKS[0].workload_hash
    database = noted(FakeDatabase({key: 0.001}, {key: unfinished}), [0.5])
    assert anything_due(TASKS[:1], config, database) is due
    assert anything_due(TASKS[:2], config, database)  # which has no schedule


@pytest.mark.parametrize("breadth_first", [False, True])
def test_what_a_stopped_run_left_unfinished_is_searched_to_its_end(breadth_first):
    keys = [task.workload_hash for task in TASKS]
    known = dict.fromkeys(keys, 0.005)
    # The first had its quick round alone, the second all of its rounds, the third one of two.
    searcher, database = FakeSearcher(), FakeDatabase(known, {keys[0]: 0, keys[2]: 1})
    tuner = tuner_of(searcher, database, limits=Limits(breadth_first=breadth_first))
    results = tuner.tune(TASKS, UNTUNED_S)
    assert sorted(searcher.order) == [0, 0, 2]
    assert not any(request.budget.quick for request in searcher.requests)
    assert searcher.requests[0].learned == {"from the database": 0.005}
    assert [result.from_database for result in results] == [False, True, False]
    assert [result.tuned_latency_s for result in results] == [0.003, 0.005, 0.004]
    assert database.unfinished == {keys[0]: None, keys[2]: None}
    again = FakeSearcher()
    tuner_of(again, database).tune(TASKS, UNTUNED_S)
    assert again.order == []


def test_a_budget_notes_what_it_left_unfinished():
    searcher, database = FakeSearcher(), FakeDatabase()
    measured = []
    limits = Limits(in_time=lambda: len(measured) < 8, breadth_first=True)
    executor = measuring_into(measured)
    config = OneShotConfig(rounds=1, top_k=2)
    network_tuner(config, executor, [searcher], database, limits=limits).tune(TASKS, UNTUNED_S)
    # Three quick rounds of two; the round after them spends the rest, and counts as cut short.
    assert [database.unfinished[task.workload_hash] for task in TASKS] == [0, 0, 0]


def test_a_search_without_anything_new_is_finished():
    searcher, database = FakeSearcher(replies=[None, RoundReply()]), FakeDatabase()
    tuner_of(searcher, database).tune(TASKS[:1], UNTUNED_S[:1])
    assert database.unfinished == {TASKS[0].workload_hash: None}


def test_extra_rounds_go_on_from_the_database():
    known = {TASKS[0].workload_hash: 0.0035}
    searcher, database = FakeSearcher(), FakeDatabase(known)
    config = OneShotConfig(rounds=1, top_k=2, extra_rounds=1)
    (result,) = tuner_of(searcher, database, config=config).tune(TASKS[:1], UNTUNED_S[:1])
    assert searcher.requests[0].learned == {"from the database": 0.0035}
    assert result.tuned_latency_s == 0.003
    assert not result.from_database


def test_extra_rounds_end_where_a_task_converged():
    searcher = FakeSearcher(latencies_s=((0.004,), (0.004,)))
    config = OneShotConfig(rounds=1, top_k=1, extra_rounds=20)
    tuner_of(searcher, config=config).tune(TASKS[:1], UNTUNED_S[:1])
    assert len(searcher.requests) == 3  # its own, and two that brought nothing


def test_a_budget_goes_breadth_first_and_ends_the_run():
    """The last task has its quick round behind the end: without a schedule it may take far longer."""
    searcher, database = FakeSearcher(), FakeDatabase()
    measured = []
    limits = Limits(in_time=lambda: len(measured) < 4, breadth_first=True)
    executor = measuring_into(measured)
    config = OneShotConfig(rounds=2, top_k=4)
    results = network_tuner(config, executor, [searcher], database, limits=limits).tune(TASKS, UNTUNED_S)
    assert searcher.order == [1, 2, 0]
    assert all(request.budget.quick for request in searcher.requests)
    assert all(result.tuned_latency_s is not None for result in results)
    assert len(database.committed) == 6


def test_a_program_of_a_quick_round_is_kept_again_where_it_proves_faster():
    """Of those that took 6 and 4 ms, the second is near the new one of 3 ms, and takes 2 ms now."""
    measured = []

    def measure(job):
        measured.append(job.module)
        return MeasureOutcome((0.002,)) if measured.count("0.004") == 2 else latency_of_module(job)

    database = FakeDatabase()
    tuner = network_tuner(
        OneShotConfig(rounds=2, top_k=4),
        FakeExecutor(measure, measure),
        [FakeSearcher(((0.006, 0.004), (0.003,), ()))],
        database,
        limits=Limits(breadth_first=True),
    )
    (result,) = tuner.tune(TASKS[:1], UNTUNED_S[:1])
    assert measured == ["0.006", "0.004", "0.003", "0.003", "0.004"]
    assert [latency_s for _, latency_s in database.committed] == [0.006, 0.004, 0.002, 0.003]
    assert result.tuned_latency_s == 0.002


def test_a_task_whose_programs_all_fail_gets_two_rounds_behind_the_end():
    failing = FakeSearcher(latencies_s=((math.inf, math.inf),) * 3)
    limits = Limits(in_time=lambda: False, breadth_first=True)
    tuner = tuner_of(failing, limits=limits, config=OneShotConfig(rounds=4, top_k=8))
    (result,) = tuner.tune(TASKS[:1], UNTUNED_S[:1])
    assert failing.order == [0, 0] and result.tuned_latency_s is None


def test_when_the_time_is_over_no_further_untuned_task_is_measured():
    measured, database = [], FakeDatabase()
    limits = Limits(in_time=lambda: False, breadth_first=True)
    executor = measuring_into(measured)
    config = OneShotConfig(rounds=2, top_k=4)
    results = network_tuner(config, executor, [FakeSearcher()], database, limits=limits).tune(TASKS)
    assert {job.module for job in measured} == {"0.004", "0.006"}
    assert [(one.untuned_latency_s, one.tuned_latency_s) for one in results] == [(None, 0.004)] * 3
    assert [database.notes.untuned_s(task) for task in TASKS] == [None] * 3  # the next run measures them


def test_when_the_time_is_over_no_search_of_a_task_with_a_schedule_is_waited_for():
    class Slow(FakeSearcher):
        """Never answers its second request, during which the time ends."""

        def __init__(self):
            super().__init__()
            self.connection, self._answered = Pipe()
            self.end = math.inf

        def ask(self, request):
            super().ask(request)
            if len(self.requests) == 1:
                self._answered.send(None)
            else:
                self.end = time.monotonic() + 0.2

        def reply(self):
            self.connection.recv()
            return super().reply()

    searcher = Slow()

    def left_s():
        return searcher.end - time.monotonic() if searcher.end < math.inf else None

    limits = Limits(lambda: time.monotonic() < searcher.end, left_s, breadth_first=True)
    (result,) = tuner_of(searcher, limits=limits).tune(TASKS[:1], UNTUNED_S[:1])
    assert searcher.order == [0, 0]
    assert (result.tuned_latency_s, result.candidates_measured) == (0.004, 2)


def test_a_budget_may_be_longer_than_a_connection_waits():
    class Answers(FakeSearcher):
        """Answers at once, by a connection."""

        def __init__(self):
            super().__init__()
            self.connection, self._answered = Pipe()

        def ask(self, request):
            super().ask(request)
            self._answered.send(None)

        def reply(self):
            self.connection.recv()
            return super().reply()

    limits = Limits(left_s=lambda: math.inf)
    (result,) = tuner_of(Answers(), limits=limits).tune(TASKS[:1], UNTUNED_S[:1])
    assert result.tuned_latency_s == 0.003


def test_a_limit_without_quick_rounds_leaves_tasks_out():
    searcher, database = FakeSearcher(), FakeDatabase()
    measured = []
    limits = Limits(in_time=lambda: len(measured) < 4)
    executor = measuring_into(measured)
    config = OneShotConfig(rounds=2, top_k=4)
    tuner = network_tuner(config, executor, [searcher], database, limits=limits)
    results = tuner.tune(TASKS, UNTUNED_S)
    assert searcher.order == [1]
    assert not searcher.requests[0].budget.quick
    assert results[0].reason == "the limits of the run left no time for it"
    assert [result.tuned_latency_s for result in results] == [None, 0.004, None]
    assert len(database.committed) == 2


def test_with_time_left_a_budget_searches_on_where_most_is_to_be_gained():
    searcher = FakeSearcher(latencies_s=((0.004,), (0.003,), (0.002,)))
    tuner = tuner_of(searcher, limits=Limits(breadth_first=True), config=OneShotConfig(rounds=2, top_k=2))
    results = tuner.tune(TASKS, UNTUNED_S)
    assert searcher.order[:3] == [1, 2, 0]
    assert [request.budget.quick for request in searcher.requests] == [True] * 3 + [False] * 6
    assert [result.tuned_latency_s for result in results] == [0.002] * 3


def test_a_latency_that_is_good_enough_ends_the_run():
    searcher = FakeSearcher()
    tuner = tuner_of(searcher, limits=Limits(latency_target_s=0.035))
    results = tuner.tune(TASKS, UNTUNED_S)
    assert searcher.order == [1]
    assert results[1].tuned_latency_s == 0.004  # what was found is kept


def test_a_search_process_that_dies_is_asked_once_more():
    gone = WorkerLostError(FailureKind.WORKER_DIED, "killed by signal 11")
    searcher, database = FakeSearcher(replies=[None, gone]), FakeDatabase()
    (result,) = tuner_of(searcher, database).tune(TASKS[:1], UNTUNED_S[:1])
    assert result.tuned_latency_s == 0.003
    assert searcher.requests[2].task is TASKS[0]  # the new process knows nothing
    assert len(searcher.requests[2].learned) == 2
    dying = FakeSearcher(replies=[gone, gone])
    (result,) = tuner_of(dying).tune(TASKS[:1], UNTUNED_S[:1])
    assert result.reason == "the search process died: killed by signal 11"


def killed():
    """Loss of a search process that something else killed."""
    spec = SimpleNamespace(role="search", thrift="search.processes=1 workers=1")
    worker = SimpleNamespace(spec=spec, started_at=time.monotonic())
    return WorkerLostError(FailureKind.WORKER_DIED, "killed by signal 9", killed=worker)


class Killed(FakeSearcher):
    """Its requests end as `ends` says: True kills its process."""

    def __init__(self, *ends):
        super().__init__()
        self.ends = list(ends)

    def reply(self):
        if self.ends and self.ends.pop(0):
            raise killed()
        return super().reply()


def test_the_work_of_killed_search_processes_is_repeated_for_some_time():
    searcher, database = Killed(True, True, False, True), FakeDatabase()
    results = tuner_of(searcher, database).tune(TASKS, UNTUNED_S)
    assert [result.tuned_latency_s for result in results] == [0.003] * 3
    searcher, database = Killed(False, True, True, True), FakeDatabase()
    with pytest.raises(WorkersKilledError, match=r"search\.processes=1 workers=1, which needs less"):
        tuner_of(searcher, database).tune(TASKS, UNTUNED_S)
    assert len(database.committed) == 2  # of the first round


def test_what_was_measured_before_the_devices_were_lost_is_kept():
    def measure(jobs):
        raise DevicesLostError("all lost", [latency_of_module(jobs[0]), *[None] * (len(jobs) - 1)])

    executor, database = measuring_into([]), FakeDatabase()
    executor.measure = measure
    with pytest.raises(DevicesLostError, match="all lost"):
        network_tuner(OneShotConfig(rounds=2, top_k=4), executor, [FakeSearcher()], database).tune(
            TASKS[:1], UNTUNED_S[:1]
        )
    assert database.committed == [(TASKS[0].workload_hash, 0.004)]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (RoundReply(nothing_to_tune=True), "nothing to tune"),
        (RoundReply(error="InternalError: odd\nmore"), "the search failed: InternalError: odd"),
    ],
)
def test_a_search_that_cannot_be_is_a_reason(reply, reason):
    (result,) = tuner_of(FakeSearcher(replies=[reply])).tune(TASKS[:1], UNTUNED_S[:1])
    assert result.reason == reason


def test_work_is_added_up_by_step():
    clock = StageClock()
    once = OneShotConfig(rounds=2, top_k=4, finalists=0)
    tuner_of(FakeSearcher(), clock=clock, config=once).tune(TASKS[:1], UNTUNED_S[:1])
    assert clock.seconds == pytest.approx({"features": 1.0, "building": 0.4, "timing": 0.8})


def test_an_executor_that_cannot_go_on_ends_the_run():
    def fail(job):
        raise RuntimeError("no device")

    tuner = network_tuner(OneShotConfig(), FakeExecutor(fail, fail), [FakeSearcher()], FakeDatabase())
    with pytest.raises(RuntimeError, match="no device"):
        tuner.tune(TASKS, UNTUNED_S)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_a_round_measured_before_it_was_stopped_is_kept(error):
    """The executor stops at the second batch."""
    jobs, database = [], FakeDatabase()

    def stopping(job):
        jobs.append(job)
        if len(jobs) > 2:
            raise error
        return latency_of_module(job)

    key = TASKS[0].workload_hash
    database.committed = [(key, 0.001)]  # of an earlier run, which this one replaces after a whole round
    config = OneShotConfig(rounds=1, top_k=4, stop=StopConfig(minimum=2, batch=2))
    searcher = FakeSearcher(((0.004, 0.006, 0.003, 0.005),))
    tuner = network_tuner(config, FakeExecutor(stopping, stopping), [searcher], database, retune=True)
    with pytest.raises(error):
        tuner.tune(TASKS[:1], UNTUNED_S[:1])
    assert database.committed == [(key, 0.001), (key, 0.004), (key, 0.006)]
    assert database.unfinished[key] == 0
