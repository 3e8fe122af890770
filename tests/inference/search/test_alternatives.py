"""Alternatives while a network is tuned: which are preferred, given up and needed. Latencies are made up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from foretune.compiler.networks.alternatives.alternatives import Offer
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.task import ALTERNATIVE, Task
from foretune.inference.planners.shares import LatencySharePlanner
from foretune.inference.reuse.tree import ReuseTree
from foretune.inference.run.result import BEATEN
from foretune.inference.search.alternatives import HOPELESS, Contests, preferred
from foretune.inference.search.config import OneShotConfig, StopConfig
from foretune.inference.search.loop import SearchLoop
from foretune.inference.search.opening import anything_due, needed_tasks
from foretune.inference.search.task_search import TaskSearch
from foretune.inference.starts.base import Start, StartSource
from foretune.inference.surrogate.shared import own_surrogate
from foretune.inference.workers.messages import RoundReply
from support.reuse_trees import StartingSearcher, planner_of
from support.searchers import TASKS, FakeDatabase, FakeSearcher, measuring_into, network_tuner, tuner_of

DIRECT, NEXT, OTHER = TASKS
CONFIG = OneShotConfig(rounds=3, top_k=3, stop=StopConfig(minimum=1), min_latency_share=0.0)


def offer(name: str, replaces: tuple[Task, ...], tasks: tuple[Task, ...], calls: int = 1) -> Offer:
    hashes = tuple(task.workload_hash for task in replaces)
    names = tuple(task.name for task in replaces)
    return Offer(name, hashes, names, tuple(_outside(task) for task in tasks), calls)


def _outside(task: Task) -> Task:
    return Task(task.name, task.mod, 0, ALTERNATIVE, task.operator, task.settings, task.flops)


def latencies(**seconds: float | None) -> Mapping[str, float | None]:
    tasks = {"direct": DIRECT, "next": NEXT, "other": OTHER}
    return {tasks[name].workload_hash: value for name, value in seconds.items()}


def names_of(offers: list[Offer], **seconds: float | None) -> list[str]:
    return [one.name for one in preferred(offers, latencies(**seconds).get)]


def test_an_offer_is_preferred_where_it_is_faster() -> None:
    one = offer("other", (DIRECT,), (OTHER,))
    assert names_of([one], direct=2.0, other=1.0) == ["other"]
    assert names_of([one], direct=1.0, other=1.0) == []
    assert names_of([one], direct=1.0, other=None) == []
    # What has no latency runs untuned, if at all.
    assert names_of([one], direct=None, other=1.0) == ["other"]
    assert names_of([one], direct=None, other=None) == []


def test_of_two_offers_the_one_that_saves_more_goes_first() -> None:
    small, large = offer("small", (DIRECT,), (NEXT,)), offer("large", (DIRECT,), (OTHER,))
    assert names_of([small, large], direct=3.0, next=2.0, other=1.0) == ["large", "small"]
    assert names_of([small, large], direct=None, next=2.0, other=1.0) == ["large", "small"]


def test_calls_in_a_row_compete_with_the_fastest_way_of_each() -> None:
    # Direct and next take 3 s each. Another task does the second one alone, or three of it do both.
    alone = offer("alone", (NEXT,), (OTHER,))
    chain = offer("chain", (DIRECT, NEXT), (TASKS[2], TASKS[2], TASKS[2]))
    # The chain takes 3 * 1 s in place of 3 + 1.
    assert names_of([alone, chain], direct=3.0, next=3.0, other=1.0) == ["chain", "alone"]
    # Its 4.5 s are less than 3 + 3, and no less than 3 + 1.5.
    assert names_of([chain, alone], direct=3.0, next=3.0, other=1.5) == ["alone"]


def test_the_sum_of_all_calls_counts() -> None:
    two = offer("two", (DIRECT,), (NEXT, OTHER))
    assert names_of([two], direct=2.0, next=1.2, other=0.7) == ["two"]
    assert names_of([two], direct=2.0, next=1.2, other=0.9) == []


def test_a_network_needs_no_task_that_it_does_without() -> None:
    tasks = [_weighted(DIRECT, 2), _weighted(NEXT, 1)]
    known = latencies(other=1.0, next=1.0).get

    def needed(offers: list[Offer]) -> list[str]:
        return [task.workload_hash for task in needed_tasks(tasks, offers, known)]

    assert needed([]) == [DIRECT.workload_hash, NEXT.workload_hash]
    assert needed([offer("all", (DIRECT,), (OTHER,), calls=2)]) == [NEXT.workload_hash, OTHER.workload_hash]
    # One of two places is left to the direct one.
    assert needed([offer("some", (DIRECT,), (OTHER,))]) == [task.workload_hash for task in TASKS]


def _weighted(task: Task, weight: int) -> Task:
    return Task(task.name, task.mod, weight, task.source, task.operator, task.settings, task.flops)


class ByTask(FakeSearcher):
    """Proposes one program a round, of a latency by its task."""

    def __init__(self, seconds: Mapping[str, float | None]) -> None:
        super().__init__()
        self.seconds = seconds

    def reply(self) -> RoundReply:
        seconds = self.seconds[self.requests[-1].key]
        # A hair faster every round, so that no two programs are the same.
        self.latencies_s = tuple((seconds * (1 - 1e-6 * number),) for number in range(9))
        return super().reply()


@pytest.mark.parametrize(
    ("other", "rounds", "direct_rounds", "network_s"),
    [(0.5, 3, 1, 0.5), (0.8, 3, 3, 0.8), (1.2, 3, 3, 1.0), (1.4, 1, 3, 1.0)],
    ids=str,
)
def test_the_hopeless_one_of_two_ways_gets_one_round(
    other: float, rounds: int, direct_rounds: int, network_s: float
) -> None:
    searcher, database = ByTask(latencies(direct=1.0, other=other)), FakeDatabase()
    one = offer("other", (DIRECT,), (OTHER,))
    tuner = tuner_of(searcher, database, config=CONFIG)
    results = tuner.tune([DIRECT], [2.0], [one])
    assert searcher.order.count(2) == rounds
    assert searcher.order.count(0) == direct_rounds
    assert searcher.order[:2] == [0, 2]  # what is replaced first, to compare with
    assert [(result.weight, result.alternative) for result in results] == [(DIRECT.weight, False), (0, True)]
    assert results[1].tuned_latency_s == pytest.approx(other, rel=1e-4)
    assert tuner.curve[-1][1] == pytest.approx(DIRECT.weight * network_s, rel=1e-4)
    assert (other > HOPELESS) == (rounds == 1)
    # It counts as searched to its end, and so does what it replaces, unless that was given up.
    assert database.unfinished[OTHER.workload_hash] is None
    assert database.unfinished[DIRECT.workload_hash] == (None if direct_rounds == 3 else 1)


def test_an_alternative_that_is_likely_to_be_faster_comes_before_what_it_replaces() -> None:
    searcher = ByTask(latencies(direct=1.0, next=1.0, other=0.5))
    one = replace(offer("other", (DIRECT,), (OTHER,), calls=DIRECT.weight), gain=1.5)
    others_s = 2.0 * DIRECT.weight / NEXT.weight
    tuner_of(searcher, FakeDatabase(), config=CONFIG).tune([DIRECT, NEXT], [4.0, others_s], [one])
    # Once it has run, its place in the network takes less than the other task without a schedule.
    assert searcher.order[:3] == [2, 1, 0]
    assert searcher.order.count(0) == 1


def test_of_two_likely_alternatives_the_one_of_the_higher_gain_comes_first() -> None:
    offers = [
        replace(offer(task.name, (DIRECT,), (task,), calls=DIRECT.weight), gain=gain)
        for task, gain in ((NEXT, 1.3), (OTHER, 1.6))
    ]
    searches = [
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate()), untuned_s=3.0)
        for task in (DIRECT, *offers[0].tasks, *offers[1].tasks)
    ]
    Contests(offers, searches)
    assert [search.stake_s for search in searches] == [DIRECT.weight * 3.0] * 3
    direct, lower, higher = (search.operations for search in searches)
    assert higher == pytest.approx(1.6 * direct) and lower == pytest.approx(1.3 * direct)
    searches[2].earlier.known_s = 0.5
    assert [search.stake_s for search in searches] == [DIRECT.weight * 0.5] * 3


def test_an_alternative_of_some_places_does_not_stand_for_the_others() -> None:
    direct = _weighted(DIRECT, 2)
    one = replace(offer("some", (direct,), (OTHER,)), gain=1.5)
    searches = [
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate()), untuned_s=3.0)
        for task in (direct, *one.tasks)
    ]
    Contests([one], searches)
    assert [search.stake_s for search in searches] == [6.0, 0.0]
    assert searches[1].role.stands_for is None


FURTHER = to_task(Dense(rows=8, in_features=8, out_features=64))


def contest() -> tuple[dict[str, TaskSearch], Contests]:
    """Calls `a` and `b` of 100 operations, with the alternatives `a4` and `b4`."""
    tasks = dict(zip(("a", "b", "a4", "b4"), (DIRECT, NEXT, OTHER, FURTHER), strict=True))
    tasks = {name: replace(task, weight=1, flops=100.0) for name, task in tasks.items()}
    offers = [replace(offer(f"{name}4", (tasks[name],), (tasks[f"{name}4"],)), gain=2.0) for name in "ab"]
    tasks |= {one.name: one.tasks[0] for one in offers}
    searches = {
        name: TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate()), untuned_s=9.0)
        for name, task in tasks.items()
    }
    return searches, Contests(offers, list(searches.values()))


def test_a_task_that_cannot_be_as_fast_as_its_alternative_is_left_out() -> None:
    searches, contests = contest()
    searches["b4"].earlier.known_s = 0.7
    contests.end_beaten()
    assert not any(search.over for search in searches.values())  # how fast b can be is not known
    searches["a"].earlier.known_s = 1.0  # 100 operations a second
    contests.end_beaten(1.5)  # at 150 a second, b takes 0.67 s
    assert not any(search.over for search in searches.values())
    contests.end_beaten(1.4)  # at 140 a second, b takes 0.71 s
    assert [name for name, search in searches.items() if search.over] == ["b"]
    assert searches["b"].beaten
    assert searches["b"].network_s == 0.7
    assert searches["b"].full_rounds == 0


class Asked(LatencySharePlanner):
    """Notes the searches that it may choose from, and plans no round."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.asked: list[list[TaskSearch]] = []

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> None:
        self.asked.append([*preferred, *others])


def test_a_task_waits_for_its_alternative() -> None:
    searches, contests = contest()

    def ready(*names: str) -> list[list[str]]:
        planner = Asked()
        contests.next_round(planner, [searches[name] for name in names or searches], [])
        return [[name for name in searches if searches[name] in asked] for asked in planner.asked]

    assert ready()[0] == ["a", "b", "a4", "b4"]  # either one shows how fast the other one can be
    searches["a"].flight.busy = True
    assert ready("b", "a4", "b4") == [["a4", "b4"]]
    searches["a"].flight.busy, searches["a"].earlier.known_s = False, 1.0
    # If the planner has no round for the others and none is under way, b waits no longer.
    assert ready() == [["a", "a4", "b4"], ["a", "b", "a4", "b4"]]
    assert ready("b")[0] == ["b"]  # the alternative gets no round now
    searches["b4"].end()  # it could not be built
    assert ready("a", "b", "a4")[0] == ["a", "b", "a4"]


def two_ways(higher: float, lower: float = 1.28) -> tuple[TaskSearch, TaskSearch, Contests]:
    """Two alternatives to a call, with these expected gains."""
    gains = (OTHER, higher), (FURTHER, lower)
    offers = [replace(offer(task.name, (DIRECT,), (task,), DIRECT.weight), gain=gain) for task, gain in gains]
    direct, better, worse = (
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate()), untuned_s=9.0)
        for task in (DIRECT, *(one.tasks[0] for one in offers))
    )
    return better, worse, Contests(offers, [direct, better, worse])


@pytest.mark.parametrize(("higher", "lower", "waits"), [(1.6, 1.28, True), (1.59, 1.28, False)], ids=str)
def test_of_two_alternatives_the_clearly_better_one_is_measured_first(
    higher: float, lower: float, waits: bool
) -> None:
    better, worse, contests = two_ways(higher, lower)  # 1.6 / 1.28 is 1.25
    planner = Asked()
    contests.next_round(planner, [better, worse], [])
    assert planner.asked[0] == ([better] if waits else [better, worse])
    contests.end_beaten()
    assert not (better.over or worse.over)
    better.earlier.known_s = 2.0  # it ran, and is faster or not
    contests.end_beaten()
    assert (better.beaten, worse.beaten) == (False, waits)


def test_an_alternative_is_measured_if_the_clearly_better_one_fails() -> None:
    better, worse, contests = two_ways(2.0)
    better.flight.busy = True
    planner = Asked()
    contests.next_round(planner, [worse], [])
    better.flight.busy = False
    better.had.history_s.append(math.inf)  # its round ended without a program that ran
    contests.end_beaten()
    contests.next_round(planner, [worse], [])
    assert planner.asked[:2] == [[], [worse]]


def test_an_alternative_of_unknown_gain_is_measured() -> None:
    offers = [offer(task.name, (DIRECT,), (task,), DIRECT.weight) for task in (OTHER, FURTHER)]
    offers[0] = replace(offers[0], gain=2.0)
    searches = [
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate()))
        for task in (DIRECT, *(one.tasks[0] for one in offers))
    ]
    contests = Contests(offers, searches)
    searches[1].earlier.known_s = 1.0
    contests.end_beaten()
    assert not searches[2].over


def test_without_measurements_no_task_waits() -> None:
    searches, _ = contest()
    offers = [replace(offer("b4", (searches["b"].task,), (searches["b4"].task,)), gain=2.0)]
    contests = Contests(offers, list(searches.values()), measured=False)
    searches["a"].earlier.known_s, searches["b4"].flight.busy = 1.0, True
    planner = Asked()
    contests.next_round(planner, [searches["b"]], [])
    assert planner.asked == [[searches["b"]]]


def test_the_second_of_two_calls_is_not_searched_if_its_alternative_is_faster() -> None:
    searcher, database = ByTask({}), FakeDatabase()
    first, second = replace(DIRECT, flops=100.0), replace(NEXT, flops=100.0)
    offers = [
        replace(offer(name, (task,), (replace(own, flops=50.0),)), gain=1.5)
        for name, task, own in (("one", first, OTHER), ("two", second, FURTHER))
    ]
    keys = [task.workload_hash for task in (first, second, OTHER, FURTHER)]
    searcher.seconds = dict(zip(keys, (1.0, 1.0, 0.6, 0.6), strict=True))
    tuner = tuner_of(searcher, database, config=CONFIG)
    results = tuner.tune([first, second], [3.0, 3.0], offers)
    asked = {request.key for request in searcher.requests}
    assert (keys[0] in asked, keys[1] in asked) == (True, False)
    assert [result.reason for result in results] == ["", BEATEN, "", ""]
    assert tuner.curve[-1][1] == pytest.approx(1.2, rel=1e-4)
    # The next run decides alike, and without the alternatives it searches the task.
    for key, seconds in zip(keys, (1.0, None, 0.6, 0.6), strict=True):
        database.known[key] = seconds
    for task in (first, second):
        database.notes.note_untuned(task, 3.0)
    assert not anything_due([first, second], CONFIG, database, offers=offers)
    assert anything_due([first, second], CONFIG, database)
    # A network without the alternatives, which needs the task, does not count it as decided.
    assert database.notes.left(second) == ""


@pytest.mark.parametrize("seconds", [math.inf, 0.9], ids=["fails", "close"])
def test_a_call_is_searched_if_its_alternative_fails_or_is_close(seconds: float) -> None:
    searcher = ByTask({})
    first, second = replace(DIRECT, flops=100.0), replace(NEXT, flops=100.0)
    one = replace(offer("two", (second,), (replace(OTHER, flops=50.0),)), gain=1.5)
    other = replace(offer("one", (first,), (replace(FURTHER, flops=50.0),)), gain=1.5)
    tasks = (first, second, FURTHER, OTHER)
    searcher.seconds = {task.workload_hash: s for task, s in zip(tasks, (1, 1, 0.5, seconds), strict=True)}
    results = tuner_of(searcher, FakeDatabase(), config=CONFIG).tune(
        [first, second], [3.0, 3.0], [other, one]
    )
    assert results[1].tuned_latency_s == pytest.approx(1.0, rel=1e-4)


def test_what_is_called_elsewhere_too_is_searched_on() -> None:
    searcher = ByTask(latencies(direct=1.0, other=0.5))
    one = offer("other", (DIRECT,), (OTHER,))
    tuner_of(searcher, FakeDatabase(), config=CONFIG).tune([_weighted(DIRECT, 2)], [2.0], [one])
    assert searcher.order.count(0) == 3


class Templates(StartSource):
    """Has two templates for each task."""

    def starts(self, task: Task) -> list[Start]:
        return [Start(f"template {n} of {task.name}") for n in range(2)]


def test_templates_decide_on_an_alternative() -> None:
    searcher = StartingSearcher(lambda trace: 0.9 if OTHER.name in trace else 1.0)
    config = replace(CONFIG, top_k=12)
    tuner = tuner_of(searcher, FakeDatabase(), config=config, start_sources=[Templates()])
    tuner.tune([DIRECT], [2.0], [offer("other", (DIRECT,), (OTHER,))])
    (request,) = [one for one in searcher.requests if one.key == OTHER.workload_hash]
    assert request.starts == tuple(f"template {n} of {OTHER.name}" for n in range(2))
    assert (request.budget.measured, request.budget.search) == (2, False)
    assert sum(one.key == DIRECT.workload_hash for one in searcher.requests) == 3


@pytest.mark.parametrize("searchers", [1, 2])
def test_the_first_of_several_with_the_same_loops_decides_on_the_template(searchers: int) -> None:
    """The second of two templates is the fastest of both; with two searchers, the other one waits."""
    found = [StartingSearcher(lambda trace: 0.8 if "template 1" in trace else 0.9) for _ in range(searchers)]
    planner = planner_of(ReuseTree({}, {}), config=CONFIG, loops_of=lambda task: "the same")
    tuner = network_tuner(
        CONFIG,
        measuring_into([]),
        found,
        FakeDatabase(),
        planner=planner,
        start_sources=[Templates()],
    )
    offers = [offer("one", (DIRECT,), (NEXT,)), offer("two", (DIRECT,), (OTHER,))]
    results = tuner.tune([DIRECT], [2.0], offers)
    requests = [request for searcher in found for request in searcher.requests]
    asked = {task.name: [r for r in requests if r.key == task.workload_hash] for task in (NEXT, OTHER)}
    assert {len(of) for of in asked.values()} == {1}
    measured = sorted(len(request.starts) for (request,) in asked.values())
    assert measured == [1, 2]
    for name, (request,) in asked.items():
        assert request.starts[-1] == f"template 1 of {name}"
    assert [result.tuned_latency_s for result in results[1:]] == [0.8, 0.8]


def test_nothing_is_left_once_a_hopeless_alternative_is_given_up() -> None:
    one = offer("other", (DIRECT,), (OTHER,))
    names = [task.workload_hash for task in (DIRECT, OTHER)]
    noted = FakeDatabase(dict(zip(names, (1.0, 1.4), strict=True)), dict.fromkeys(names))
    noted.notes.note_untuned(DIRECT, 2.0)
    assert not anything_due([DIRECT], CONFIG, noted, offers=[one])
    # An interrupted search of it goes on only while there is hope.
    noted.unfinished[OTHER.workload_hash] = 1
    assert not anything_due([DIRECT], CONFIG, noted, offers=[one])
    noted.known[OTHER.workload_hash] = 1.2
    assert anything_due([DIRECT], CONFIG, noted, offers=[one])
    # Without the offer nothing of it is due.
    assert not anything_due([DIRECT], CONFIG, noted)


def test_what_an_alternative_has_beaten_is_due_without_it() -> None:
    one = offer("other", (DIRECT,), (OTHER,))
    names = [task.workload_hash for task in (DIRECT, OTHER)]
    noted = FakeDatabase(dict(zip(names, (1.0, 0.5), strict=True)), dict(zip(names, (1, None), strict=True)))
    noted.notes.note_untuned(DIRECT, 2.0)
    assert not anything_due([DIRECT], CONFIG, noted, offers=[one])
    assert anything_due([DIRECT], CONFIG, noted)


def test_a_new_alternative_to_tuned_tasks_is_due() -> None:
    name = DIRECT.workload_hash
    noted = FakeDatabase({name: 1.0}, {name: None})
    noted.notes.note_untuned(DIRECT, 2.0)
    assert anything_due([DIRECT], CONFIG, noted, offers=[offer("other", (DIRECT,), (OTHER,))])


def test_a_task_of_a_hopeless_and_of_a_promising_alternative_is_searched_on() -> None:
    seconds = latencies(direct=1.0, next=5.0, other=0.8)
    searcher = ByTask(seconds)
    offers = [offer("one", (DIRECT,), (OTHER, NEXT)), offer("two", (DIRECT,), (OTHER,))]
    tuner_of(searcher, FakeDatabase(), config=CONFIG).tune([DIRECT], [2.0], offers)
    assert [searcher.order.count(number) for number in range(3)] == [3, 1, 3]


def test_an_alternative_that_never_runs_changes_nothing() -> None:
    searcher = ByTask(latencies(direct=1.0, other=math.inf))
    tuner = tuner_of(searcher, FakeDatabase(), config=CONFIG)
    results = tuner.tune([DIRECT], [2.0], [offer("other", (DIRECT,), (OTHER,))])
    assert [result.tuned_latency_s is None for result in results] == [False, True]
    assert tuner.curve[-1][1] == pytest.approx(DIRECT.weight * 1.0, rel=1e-4)


def test_an_alternative_is_judged_once_all_its_tasks_were_measured() -> None:
    two = offer("two", (DIRECT,), (NEXT, OTHER))
    direct, first, second = (
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate())) for task in (DIRECT, *two.tasks)
    )
    direct.earlier.known_s, first.earlier.known_s = 1.0, 0.5
    second.had.rounds, second.flight.busy = 1, True
    contests = Contests([two], [direct, first, second])
    contests.give_up(3)
    assert not (first.over or second.over)
    second.flight.busy, second.earlier.known_s = False, 0.7  # 1.2 s in all
    contests.give_up(3)
    assert not (first.over or second.over)
    second.earlier.known_s = 0.9
    contests.give_up(3)
    assert (first.over, second.over, direct.over) == (True, True, False)
    assert (first.full_rounds, second.full_rounds) == (3, 3)


def test_alternatives_that_were_hopeless_at_another_size_are_left_out() -> None:
    offers = [offer("one", (DIRECT,), (NEXT,)), offer("two", (DIRECT,), (OTHER,))]
    searches = [
        TaskSearch(task, SearchLoop(StopConfig(), 0, own_surrogate()))
        for task in (DIRECT, *offers[0].tasks, *offers[1].tasks)
    ]
    contests = Contests(offers, searches)

    def over(*earlier_s: dict[float, float]) -> list[bool]:
        contests.leave_out(dict(zip(searches, earlier_s, strict=True)).__getitem__, 3)
        return [search.over for search in searches]

    assert over({}, {2.0: 0.5}, {2.0: 0.7}) == [False, False, False]
    assert over({1.0: 1.0}, {2.0: 9.0}, {1.0: 0.9}) == [False, False, False]  # no size in common
    assert [search.role.known_resized for search in searches] == [False, False, True]
    assert over({2.0: 1.0}, {2.0: 0.5}, {2.0: 0.6}) == [False, False, False]  # 1.2 times as long
    assert [search.role.known_resized for search in searches] == [False, True, True]
    # The nearest size in common decides: at the other one, it was hopeless.
    assert over({1.0: 2.0, 2.0: 1.0}, {1.0: 1.0, 2.0: 0.1}, {1.0: 1.2, 2.0: 0.9}) == [False, False, False]
    assert over({2.0: 1.0}, {2.0: 0.5}, {2.0: 0.7}) == [False, False, True]
    assert searches[2].full_rounds == 3
    assert over({2.0: 1.0}, {2.0: 1.4}, {}) == [False, True, True]
