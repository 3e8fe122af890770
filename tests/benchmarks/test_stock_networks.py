"""Networks tuned by MetaSchedule over several sessions: searches that go on, their files, the contest."""

from __future__ import annotations

import json
import lzma
import math
import signal
from pathlib import Path

import hypothesis
import pytest
from foretune.compiler.networks import load_network
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target, workload_hash
from foretune.dataset.records.database_lines import RECORD_FILE
from foretune.signals import Interrupted
from hypothesis import strategies as st
from tvm.s_tir import meta_schedule as ms

from benchmarks.kept_runs import KeptRuns
from benchmarks.stock_networks import __main__ as command
from benchmarks.stock_networks.arms import Arm, Stock, Subject, stocks
from benchmarks.stock_networks.measuring import MEASURED_BY
from benchmarks.stock_networks.records import (
    PROGRESS_FILE,
    BrokenStateError,
    TaskRecords,
    packed,
    read_compact,
    unpacked,
    write_compact,
)
from benchmarks.stock_networks.search import TaskSearch
from benchmarks.tables import contests
from benchmarks.tasks import operator

SMALL = "benchmarks.campaign.small_network:Small"

SETTINGS = {"network": "net", "seed": 0}


def small() -> ms.SearchStrategy:
    """MetaSchedule's evolution in little time."""
    return ms.search_strategy.EvolutionarySearch(
        population_size=16, genetic_num_iters=1, init_min_unmeasured=4, max_fail_count=2
    )


def content(latency_s: float, *factors: int) -> list:
    """A record with one decision."""
    return [[[["GetSBlock", [], ["b"], ["b0"]]], [[0, list(factors)]]], [latency_s]]


def records(folder: Path, *latencies_s: float, exhausted: bool = False) -> TaskRecords:
    contents = [content(latency_s, number + 1) for number, latency_s in enumerate(latencies_s)]
    return TaskRecords(folder, SETTINGS, contents, [(len(contents), 10.0)], exhausted)


@pytest.fixture(scope="module")
def product() -> Task:
    """A product of matrices whose space has many programs."""
    return operator("GMM", 0)


class Measured:
    """Invented latencies by program; a signal comes after `interrupt_after` programs."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.programs: list[str] = []
        self._left = math.inf if interrupt_after is None else interrupt_after

    def __call__(self, candidates):
        for candidate in candidates:
            self.programs.append(workload_hash(candidate.sch.mod))
            self._left -= 1
            if self._left == 0:
                signal.raise_signal(signal.SIGINT)
            yield [(1e-3 + len(self.programs) * 1e-5,)]


def continued(
    folder: Path, task: Task, trials: int, measured: Measured, ends: float = math.inf
) -> TaskRecords:
    """The records of a folder after a search that begins from them, as in a new process."""
    found = TaskRecords.read(folder, SETTINGS)
    TaskSearch(task, parse_target("llvm"), found, trials, strategy=small()).run(measured, ends)
    return found


def test_a_stopped_search_continues_and_measures_nothing_twice(tmp_path, product):
    first, second, third = Measured(5), Measured(), Measured()
    with pytest.raises(Interrupted):
        continued(tmp_path, product, 12, first)
    assert len(first.programs) == 5 and len(TaskRecords.read(tmp_path, SETTINGS).contents) == 5
    with (tmp_path / RECORD_FILE).open("a") as file:
        file.write('[0,[[[["Get')  # a process that was killed while it wrote
    found = continued(tmp_path, product, 8, second)
    found = continued(tmp_path, product, 12, third)
    assert (len(second.programs), len(third.programs)) == (3, 4)
    assert len({*first.programs, *second.programs, *third.programs}) == 12
    assert TaskRecords.read(tmp_path, SETTINGS).contents == found.contents and len(found.contents) == 12
    programs = [programs for programs, _ in found.rounds]  # further ones of rounds with known programs
    assert programs == sorted(programs) and {5, 8, 12} <= {*programs}
    assert sorted(seconds for _, seconds in found.rounds) == [seconds for _, seconds in found.rounds]
    # TVM reads the folder, and its best program is the one of the least latency.
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    (best,) = database.get_top_k(database.commit_workload(product.mod), 1)
    assert [float(second) for second in best.run_secs] == found.best(12)[1] == found.contents[0][1]


def test_a_search_without_time_measures_nothing(tmp_path, product):
    assert continued(tmp_path, product, 8, Measured(), ends=-math.inf).contents == []


def test_a_small_space_ends_the_search_for_good(tmp_path):
    task = operator("NRM", 0)
    first, second = Measured(), Measured()
    found = continued(tmp_path, task, 1000, first)
    assert found.exhausted and 0 < len(found.contents) == len(set(first.programs)) < 1000
    assert TaskRecords.read(tmp_path, SETTINGS).done(1000)
    continued(tmp_path, task, 1000, second)
    assert second.programs == []


def test_failures_count_as_programs_but_are_never_the_best(tmp_path, product):
    def fails_first(candidates):
        yield [() if number == 0 else (2e-3,) for number in range(len(candidates))]

    found = continued(tmp_path, product, 4, fails_first)
    assert len(found.contents) == 4 and found.contents[0][1] == [1e10]
    assert found.best(1) is None and found.best(4)[1] == [2e-3] and found.failed == 1


DECISIONS = st.one_of(st.integers(-1, 512), st.lists(st.integers(1, 512), max_size=4))


@hypothesis.given(
    st.lists(
        st.tuples(
            st.sampled_from(["SamplePerfectTile", "Annotate"]),
            st.lists(st.tuples(st.integers(0, 9), DECISIONS).map(list), max_size=3),
            st.lists(st.floats(1e-6, 1e10), min_size=1, max_size=3),
        ),
        max_size=6,
    )
)
def test_the_compact_form_keeps_all(found):
    contents = [[[[[kind, [], [0], ["v0"]]], decisions], run_secs] for kind, decisions, run_secs in found]
    compact = json.loads(json.dumps(packed(contents)))
    assert unpacked(compact) == contents and len(compact["records"]) == len(contents)


def test_the_compact_file_replaces_folders_that_have_less(tmp_path):
    path = tmp_path / "programs" / "net.json.xz"
    write_compact(path, [records(tmp_path / "a", 3.0, 2.0), records(tmp_path / "b", 1.0, exhausted=True)])
    new = [TaskRecords(tmp_path / "a", SETTINGS), records(tmp_path / "b", 4.0, 5.0)]
    read_compact(path, new)
    assert [one[1] for one in new[0].contents] == [[3.0], [2.0]] and new[0].rounds == [(2, 10.0)]
    assert [one[1] for one in new[1].contents] == [[4.0], [5.0]] and not new[1].exhausted
    read_compact(tmp_path / "none.json.xz", new)
    assert len(new[0].contents) == 2


def test_the_curve_is_cut_from_the_order_of_the_programs(tmp_path):
    found = records(tmp_path, 3.0, 2.0, 5.0, 1.0)
    found.rounds = [(2, 10.0), (3, 15.0), (4, 30.0)]
    assert [found.best(trials)[1] for trials in (1, 2, 3, 4, 9)] == [[3.0], [2.0], [2.0], [1.0], [1.0]]
    assert [found.seconds(trials) for trials in (1, 3, 4, 9)] == [10.0, 15.0, 30.0, 30.0]
    assert [found.measured(trials) for trials in (3, 9)] == [3, 4]
    assert found.done(4) and not found.done(5)


def broken(tmp_path: Path, what: str) -> Path:
    """A folder with three programs and a broken part."""
    folder = tmp_path / "task"
    found = records(folder, 1.0, 2.0, 3.0)
    found.write_progress()
    lines = [json.dumps([0, one]) for one in found.contents]
    if what == "line":
        lines[1] = "[0, [7]]"
    (folder / RECORD_FILE).write_text("\n".join(lines) + "\n")
    if what == "progress":
        (folder / PROGRESS_FILE).write_text("[]")
    if what == "no progress":
        (folder / PROGRESS_FILE).unlink()
    return folder


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("line", r"record.json, line 2: cannot be read \(.*\); remove .*task to continue from the committed"),
        ("progress", r"progress.json: cannot be read"),
        ("no progress", r"progress.json: cannot be read"),
    ],
)
def test_a_broken_folder_is_one_error(tmp_path, what, message):
    with pytest.raises(BrokenStateError, match=message):
        TaskRecords.read(broken(tmp_path, what), SETTINGS)


def test_programs_of_another_search_are_refused(tmp_path):
    folder = broken(tmp_path, "nothing")
    with pytest.raises(BrokenStateError, match="task has seed=0, this search has 1; remove it"):
        TaskRecords.read(folder, {**SETTINGS, "seed": 1})


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        lzma.compress(b"[]"),
        lzma.compress(b'{"a": {"records": [[0, [1], [1]]], "frames": []}}'),
    ],
    ids=["bytes", "list", "frames"],
)
def test_a_broken_compact_file_is_one_error(tmp_path, content):
    path = tmp_path / "net.json.xz"
    path.write_bytes(content)
    with pytest.raises(BrokenStateError, match=r"net.json.xz: cannot be read .*; restore it from git"):
        read_compact(path, [TaskRecords(tmp_path / "a", SETTINGS)])


def test_a_network_needs_so_many_programs_of_each_task(tmp_path):
    two, one = records(tmp_path / "a", 3.0, 2.0), records(tmp_path / "b", 5.0, exhausted=True)
    own = records(tmp_path / "c", 7.0)
    subject, tasks = Subject("net"), ["a", "b"]
    every = Arm(subject, "foretune", tasks, [two, one], tmp_path)
    stock = Arm(subject, "stock", tasks[:1], [own], tmp_path)
    found = stocks(every, stock, (1, 2, 3))
    assert [(each.trials, each.own_tasks, each.facts["measured"]) for each in found] == [
        *((1, 0, 2), (1, 1, 2), (2, 0, 3))
    ]
    assert [best[1] for best in found[1].best] == [[7.0], [5.0]]
    assert found[2].facts["search_s"] == 20.0 and len({each.name for each in found}) == 3
    assert stocks(every, Arm(subject, "stock", [], [], tmp_path), (1,)) == found[:1]


def test_the_default_is_timed_with_all_networks_of_metaschedule(tmp_path, monkeypatch):
    asked = []

    def build(subject, contents, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("library")
        return {"unscheduled": [], "max_abs_difference": 0.0, "tolerance": 1.0}

    def one_of_each(network, seed, folder, searches, overrides, *, others):
        assert all(path.is_file() for path in others.values())
        asked.append((seed, [*others]))
        run = {"seed": seed, "measured": 4, "search_s": 5.0}
        return {"default": run, "side_by_side_s": {"default": 1.0, **dict.fromkeys(others, 2.0)}}

    monkeypatch.setattr(Subject, "build", build)
    monkeypatch.setattr(command.contest, "one_of_each", one_of_each)
    words = ["--networks", "net", "--trials", "2", "1", "--runs", "2", "--runs-in", str(tmp_path)]
    given = command.arguments_of(words)
    every = Arm(Subject("net"), "foretune", ["a"], [records(tmp_path / "a", 3.0, 2.0)], tmp_path)
    own = Arm(Subject("net"), "stock", [], [], tmp_path)
    found = command.compared(given, KeptRuns(given, math.inf), {"net": (every, own)})
    names = [Stock(trials, [], 0).name for trials in (1, 2)]
    assert asked == [(0, names), (1, names)]
    rows = list(contests.stock_networks(type("Result", (), {"values": {"networks": found}})))
    assert [(row["trials"], row["measured"], row["speed"], row["less_time"]) for row in rows] == [
        *((1, 1, 2.0, 2.0), (2, 2, 2.0, 2.0)) * 2
    ]
    assert rows[0]["own_measurement"] == "0 of 1"


@pytest.mark.parametrize("words", [["--trials", "0"], ["--own-tasks", "-1"]])
def test_numbers_below_the_least_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        command.arguments_of(words)
    assert "must be at least" in capsys.readouterr().err


@pytest.mark.slow
def test_a_network_is_searched_in_two_sessions_and_computes_the_same(tmp_path, monkeypatch):
    subject = Subject("small")
    monkeypatch.setattr(Subject, "network", load_network(SMALL, inputs=[[4, 32]]))
    folder, compact = tmp_path / "folder", tmp_path / "programs" / "small.json.xz"

    def arm(measured_by: str, folder: Path) -> Arm:
        path = compact.with_name(f"{measured_by}.json.xz")
        tasks = subject.tasks[: 1 if measured_by == "stock" else None]
        return Arm.opened(subject, measured_by, tasks, folder / measured_by, path, SETTINGS)

    for session in ("one", "another"):  # the second has only the compact files
        for measured_by in MEASURED_BY:
            own = arm(measured_by, folder / session)
            own.search(4 if session == "one" else 6, math.inf, strategy=small())
    every, own = (arm(measured_by, folder / "another") for measured_by in MEASURED_BY)
    assert all(len(one.contents) == 6 or one.exhausted for one in (*every.records, *own.records))
    for number, stock in enumerate(stocks(every, own, (4, 6))):
        facts = subject.build(stock.best, tmp_path / f"{number}.so")
        assert facts["unscheduled"] == [] and facts["max_abs_difference"] <= facts["tolerance"]
        assert (tmp_path / f"{number}.so").stat().st_size > 1000
