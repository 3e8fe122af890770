"""The tuner of a network with searchers and devices that do as told: order, limits, deaths, what is kept."""

from __future__ import annotations

import math

import pytest
import tvm
from fake_executor import FakeExecutor
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.measure.process import WorkerGone
from foretune.dataset.operators import Dense, to_task
from foretune.dataset.records import FailureKind
from foretune.inference.rounds import FIRST_GAIN, Progress, gain, most_promising
from foretune.inference.search_config import OneShotConfig, StopConfig
from foretune.inference.stages import StageClock
from foretune.inference.tuner import Limits, NetworkTuner, _Search
from foretune.inference.validation import Choice

TASKS = [to_task(Dense(rows=8, in_features=8, out_features=extent)) for extent in (8, 16, 32)]
UNTUNED_S = [0.010, 0.030, 0.020]


class FakeSearcher:
    """Proposes programs whose module is their latency: a round of a task is `latencies_s[round]`."""

    connection = None

    def __init__(self, latencies_s=((0.004, 0.006), (0.003, 0.005)), replies=()):
        self.latencies_s = latencies_s
        self.requests = []
        self._replies = list(replies)
        self._rounds = {}

    def ask(self, request):
        self.requests.append(request)

    def reply(self):
        if self._replies and (reply := self._replies.pop(0)) is not None:
            if isinstance(reply, Exception):
                raise reply
            return reply
        key = self.requests[-1]["key"]
        number = self._rounds[key] = self._rounds.get(key, -1) + 1
        latencies = self.latencies_s[min(number, len(self.latencies_s) - 1)]
        return {
            "proposals": [
                {
                    "trace": f"{key} {number} {place}",
                    "record": "[]",
                    "module": str(latency),
                    "score": 1.0 - 0.1 * place,
                    "place": [0.0] * 4,
                }
                for place, latency in enumerate(latencies)
            ],
            "scored": 10,
            "stage_s": {"features": 0.5},
        }

    def close(self):
        pass

    @property
    def order(self):
        """Number of the task of each request."""
        keys = [task.workload_hash for task in TASKS]
        return [keys.index(request["key"]) for request in self.requests]


class FakeDatabase:
    def __init__(self, known=None, unfinished=None):
        self.known = known or {}
        self.unfinished = unfinished or {}
        self.committed = []

    def rounds_of_unfinished(self, task):
        return self.unfinished.get(task.workload_hash)

    def note_rounds(self, task, rounds, of):
        self.unfinished[task.workload_hash] = rounds if rounds < of else None

    def best_latency_s(self, task):
        return self.known.get(task.workload_hash)

    def latencies_s(self, task):
        return {"from the database": self.known[task.workload_hash]}

    def commit(self, task, validations):
        self.committed += [(task.workload_hash, v.latency_s) for v in validations]


def latency_of_module(job):
    seconds = float(job.module)
    if math.isinf(seconds):
        return MeasureOutcome(failure=FailureKind.RUN_ERROR, message="made to fail")
    return MeasureOutcome((seconds,), build_s=0.1, run_s=0.2)


def measuring_into(measured):
    """An executor that lists what it measures."""

    def measure(job):
        measured.append(job)
        return latency_of_module(job)

    return FakeExecutor(measure, measure)


def tuner_of(searcher, database=None, *, config=None, **options):
    return NetworkTuner(
        config or OneShotConfig(rounds=2, top_k=4),
        measuring_into([]),
        [searcher],
        database or FakeDatabase(),
        **options,
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


@pytest.mark.parametrize(
    ("least_share", "rounds"),
    [(0.0, [4, 4, 4]), (0.3, [1, 4, 4]), (0.5, [1, 3, 4]), (1.0, [1, 2, 2]), (10.0, [1, 1, 1])],
)
def test_what_takes_little_of_the_network_gets_few_rounds(least_share, rounds):
    """Of 1, 10 and 12 ms an even share is 7.7 ms: these are 0.13, 1.3 and 1.6 of it."""
    latencies_s = dict(zip((task.workload_hash for task in TASKS), (0.001, 0.010, 0.012), strict=True))

    class Steady(FakeSearcher):
        def reply(self):
            self.latencies_s = ((latencies_s[self.requests[-1]["key"]],),)
            return super().reply()

    searcher, database = Steady(), FakeDatabase()
    config = OneShotConfig(rounds=4, top_k=4, least_share=least_share, stop=StopConfig(minimum=4))
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
    config = OneShotConfig(rounds=4, top_k=4, least_share=10.0, stop=StopConfig(minimum=4))
    tuner_of(searcher, config=config).tune(TASKS[:1], [1.0])
    assert searcher.order == [0] * 4


def test_the_untuned_are_measured_during_the_first_searches():
    measured = []
    searcher = FakeSearcher()
    untuned = dict(zip((tvm.ir.save_json(task.mod) for task in TASKS), UNTUNED_S, strict=True))

    def measure(job):
        measured.append(job.module in untuned)
        return MeasureOutcome((untuned[job.module],)) if job.module in untuned else latency_of_module(job)

    tuner = NetworkTuner(
        OneShotConfig(rounds=2, top_k=4), FakeExecutor(measure, measure), [searcher], FakeDatabase()
    )
    results = tuner.tune(TASKS)
    assert [result.untuned_latency_s for result in results] == UNTUNED_S
    assert [result.tuned_latency_s for result in results] == [0.003] * 3
    assert searcher.order[:3] == [2, 1, 0]  # by their operations
    assert measured[:3] == [True] * 3
    assert not any(measured[3:])
    assert tuner.curve[0][1] == pytest.approx(sum(UNTUNED_S))


def test_an_untuned_task_that_cannot_be_measured_ends_the_run():
    def fail(job):
        raise RuntimeError("no device")

    tuner = NetworkTuner(OneShotConfig(), FakeExecutor(fail, fail), [FakeSearcher()], FakeDatabase())
    with pytest.raises(RuntimeError, match="no device"):
        tuner.tune(TASKS)


def test_a_searcher_gets_a_task_once_and_then_what_was_measured():
    searcher = FakeSearcher()
    tuner_of(searcher).tune(TASKS[:1], UNTUNED_S[:1])
    first, second = searcher.requests
    assert first["task"]["name"] == TASKS[0].name
    assert first["learned"] == {}
    assert "task" not in second
    key = TASKS[0].workload_hash
    assert second["learned"] == {f"{key} 0 0": 0.004, f"{key} 0 1": 0.006}


def test_a_task_stays_with_the_searcher_that_knows_it():
    searchers = [FakeSearcher(), FakeSearcher()]
    config = OneShotConfig(rounds=2, top_k=4, extra_rounds=1)
    tuner = NetworkTuner(config, measuring_into([]), searchers, FakeDatabase())
    tuner.tune(TASKS[:2], UNTUNED_S[:2])
    assert [searcher.order for searcher in searchers] == [[1, 1, 1], [0, 0, 0]]
    for searcher in searchers:
        assert ["task" in request for request in searcher.requests] == [True, False, False]


def test_an_idle_searcher_takes_over_from_a_busy_one():
    first, second = FakeSearcher(), FakeSearcher()
    tuner = NetworkTuner(OneShotConfig(), FakeExecutor(), [first, second], FakeDatabase())
    mine, other = (
        _Search(task, 1.0, 2, Choice((), StopConfig()), searcher=first, rounds=1) for task in TASKS[:2]
    )
    tuner._searches = [mine, other]
    assert tuner._choose(second) is None  # the one that knows them is idle, too
    mine.busy, tuner._asked = True, {0: mine}
    assert tuner._choose(second) is other


def test_a_failure_is_told_and_a_task_without_a_program_says_so():
    searcher = FakeSearcher(latencies_s=((math.inf, math.inf),))
    database = FakeDatabase()
    (result,) = tuner_of(searcher, database).tune(TASKS[:1], UNTUNED_S[:1])
    assert list(searcher.requests[1]["learned"].values()) == [None, None]
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


@pytest.mark.parametrize("breadth_first", [False, True])
def test_what_a_stopped_run_left_unfinished_is_searched_to_its_end(breadth_first):
    keys = [task.workload_hash for task in TASKS]
    known = dict.fromkeys(keys, 0.005)
    # The first had its quick round alone, the second all of its rounds, the third one of two.
    searcher, database = FakeSearcher(), FakeDatabase(known, {keys[0]: 0, keys[2]: 1})
    tuner = tuner_of(searcher, database, limits=Limits(breadth_first=breadth_first))
    results = tuner.tune(TASKS, UNTUNED_S)
    assert sorted(searcher.order) == [0, 0, 2]
    assert not any(request.get("quick") for request in searcher.requests)
    assert searcher.requests[0]["learned"] == {"from the database": 0.005}
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
    NetworkTuner(config, executor, [searcher], database, limits=limits).tune(TASKS, UNTUNED_S)
    # Three quick rounds of two; the round after them spends the rest, and counts as cut short.
    assert [database.unfinished[task.workload_hash] for task in TASKS] == [0, 0, 0]


def test_a_search_without_anything_new_is_finished():
    searcher, database = FakeSearcher(replies=[None, {"proposals": []}]), FakeDatabase()
    tuner_of(searcher, database).tune(TASKS[:1], UNTUNED_S[:1])
    assert database.unfinished == {TASKS[0].workload_hash: None}


def test_extra_rounds_go_on_from_the_database():
    known = {TASKS[0].workload_hash: 0.0035}
    searcher, database = FakeSearcher(), FakeDatabase(known)
    config = OneShotConfig(rounds=1, top_k=2, extra_rounds=1)
    (result,) = tuner_of(searcher, database, config=config).tune(TASKS[:1], UNTUNED_S[:1])
    assert searcher.requests[0]["learned"] == {"from the database": 0.0035}
    assert result.tuned_latency_s == 0.003
    assert not result.from_database


def test_extra_rounds_end_where_a_task_converged():
    searcher = FakeSearcher(latencies_s=((0.004,), (0.004,)))
    config = OneShotConfig(rounds=1, top_k=1, extra_rounds=20)
    tuner_of(searcher, config=config).tune(TASKS[:1], UNTUNED_S[:1])
    assert len(searcher.requests) == 3  # its own, and two that brought nothing


def test_a_budget_goes_breadth_first_and_ends_the_run():
    searcher, database = FakeSearcher(), FakeDatabase()
    measured = []
    limits = Limits(in_time=lambda: len(measured) < 4, breadth_first=True)
    executor = measuring_into(measured)
    config = OneShotConfig(rounds=2, top_k=4)
    tuner = NetworkTuner(config, executor, [searcher], database, limits=limits)
    results = tuner.tune(TASKS, UNTUNED_S)
    assert searcher.order == [1, 2]
    assert all(request["quick"] for request in searcher.requests)
    assert results[0].reason == "the limits of the run left no time for it"
    assert results[0].tuned_latency_s is None
    assert results[1].tuned_latency_s == 0.004
    assert len(database.committed) == 4


def test_with_time_left_a_budget_searches_on_where_most_is_to_be_gained():
    searcher = FakeSearcher(latencies_s=((0.004,), (0.003,), (0.002,)))
    tuner = tuner_of(searcher, limits=Limits(breadth_first=True), config=OneShotConfig(rounds=2, top_k=2))
    results = tuner.tune(TASKS, UNTUNED_S)
    assert searcher.order[:3] == [1, 2, 0]
    assert [request.get("quick", False) for request in searcher.requests] == [True] * 3 + [False] * 6
    assert [result.tuned_latency_s for result in results] == [0.002] * 3


def test_a_latency_that_is_good_enough_ends_the_run():
    searcher = FakeSearcher()
    tuner = tuner_of(searcher, limits=Limits(latency_target_s=0.035))
    results = tuner.tune(TASKS, UNTUNED_S)
    assert searcher.order == [1]
    assert results[1].tuned_latency_s == 0.004  # what was found is kept


def test_a_search_process_that_dies_is_asked_once_more():
    gone = WorkerGone(FailureKind.WORKER_DIED, "killed by signal 11")
    searcher, database = FakeSearcher(replies=[None, gone]), FakeDatabase()
    (result,) = tuner_of(searcher, database).tune(TASKS[:1], UNTUNED_S[:1])
    assert result.tuned_latency_s == 0.003
    assert "task" in searcher.requests[2]  # the new process knows nothing
    assert len(searcher.requests[2]["learned"]) == 2
    dying = FakeSearcher(replies=[gone, gone])
    (result,) = tuner_of(dying).tune(TASKS[:1], UNTUNED_S[:1])
    assert result.reason == "the search process died: killed by signal 11"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"nothing": True}, "nothing to tune"),
        ({"error": "InternalError: odd\nmore", "usable": True}, "the search failed: InternalError: odd"),
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

    tuner = NetworkTuner(OneShotConfig(), FakeExecutor(fail, fail), [FakeSearcher()], FakeDatabase())
    with pytest.raises(RuntimeError, match="no device"):
        tuner.tune(TASKS, UNTUNED_S)


# -- which task gets the next round


def progress(latency_s=0.010, gains=(), weight=1, round_s=5.0):
    return Progress(weight, latency_s, gains, round_s)


def test_the_next_round_goes_where_a_second_saves_most():
    # 10 ms x 0.2 / 5 s = 0.4 ms/s; two calls of 8 ms: 0.64 ms/s; 40 ms that gained 2 % and 4 %: 0.12 ms/s.
    tasks = [progress(), progress(0.008, weight=2), progress(0.040, gains=(0.02, 0.04), round_s=10.0)]
    assert [task.saving_rate * 1e3 for task in tasks] == pytest.approx([0.4, 0.64, 0.06 * 2 * 0.5])
    assert most_promising(tasks) == 1
    assert progress().expected_gain == FIRST_GAIN


def test_two_rounds_without_gain_are_the_end():
    assert not progress(gains=(0.0,)).converged
    assert not progress(gains=(0.0, 0.02)).converged
    assert progress(gains=(0.5, 0.0, 0.009)).converged
    assert most_promising([progress(gains=(0.0, 0.0))]) is None
    assert most_promising([]) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0.010, 0.008, 0.2), (0.010, 0.011, 0.0), (math.inf, 0.01, 1.0), (math.inf, math.inf, 0.0)],
)
def test_a_gain_is_a_share_of_what_was(before, after, expected):
    assert gain(before, after) == pytest.approx(expected)


# -- the clock


def test_a_stage_inside_stops_the_one_outside(monkeypatch):
    times = iter([0.0, 1.0, 4.0, 10.0])  # outer in, inner in, inner out, outer out
    monkeypatch.setattr("foretune.inference.stages.time.perf_counter", lambda: next(times))
    clock = StageClock()
    with clock.stage("outer"), clock.stage("inner"):
        pass
    assert clock.seconds == {"outer": 7.0, "inner": 3.0}
    assert list(clock.take()) == ["outer", "inner"]
    assert clock.seconds == {}
