"""Merge of schedules into a folder: its algebra, what it tells, and kills at any moment."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from foretune.dataset.records.database_lines import RECORD_FILE, WORKLOAD_FILE
from foretune.inference.bundle.merge import MergedTask, merge
from foretune.inference.database import folder as database_folder
from foretune.inference.database.folder import (
    ROUNDS_FILE,
    DatabaseInUseError,
    held_alone,
    hold_open,
    read_rounds,
)
from hypothesis import given
from hypothesis import strategies as st
from support.bundles import Latencies, lines_of, make_folder, name_of, schedules_in

Rounds = Mapping[int, tuple[int, int]]


def merged(folder: Path, latencies: Latencies, rounds: Rounds | None = None) -> dict[str, MergedTask]:
    return merge(folder, *lines_of(latencies), {name_of(task): done for task, done in (rounds or {}).items()})


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_task_is_added_improved_or_kept(tmp_path):
    folder = make_folder(tmp_path / "a", {1: {"x": 4e-3, "y": 5e-3}, 2: {"x": 1e-3}, 3: {"x": 2e-3}})
    told = merged(folder, {2: {"z": 2e-3}, 4: {"x": 7e-3, "y": 6e-3}, 1: {"z": 1e-3, "x": 9e-3}})
    assert told == {
        name_of(2): MergedTask(before_s=1e-3, offered_s=2e-3, added=1),
        name_of(4): MergedTask(before_s=None, offered_s=6e-3, added=2),
        name_of(1): MergedTask(before_s=4e-3, offered_s=1e-3, added=1),
    }
    assert [(task.outcome, task.latency_s) for task in told.values()] == [
        ("kept", 1e-3),
        ("added", 6e-3),
        ("improved", 1e-3),
    ]
    assert sorted(map(sum, schedules_in(folder).values())) == [
        *(1e-3, 1e-3, 2e-3, 2e-3, 4e-3, 5e-3, 6e-3, 7e-3)
    ]


def test_what_merges_nothing_writes_nothing(tmp_path):
    folder = make_folder(tmp_path / "a", {1: {"x": 4e-3}}, {1: (6, 6)})
    before = files_of(folder)
    assert merged(folder, {1: {"x": 4e-3}}, {1: (6, 6)})[name_of(1)].outcome == "kept"
    assert files_of(folder) == before


def test_lines_that_are_no_records_stay(tmp_path):
    folder = make_folder(tmp_path / "a", {1: {"x": 4e-3}})
    with (folder / RECORD_FILE).open("a") as file:
        file.write('{"of": "another program"}\n[0,[[[],[]],[1e10],{},[]]]\n[0,[[[')
    merged(folder, {1: {"y": 1e-3}})
    lines = (folder / RECORD_FILE).read_text().splitlines()
    assert lines[1:3] == ['{"of": "another program"}', "[0,[[[],[]],[1e10],{},[]]]"]
    assert len(lines) == 4  # without the one that a kill left unfinished
    assert (folder / RECORD_FILE).read_text().endswith("\n")


@pytest.mark.parametrize(
    ("own", "offered", "after"),
    [
        (({"x": 2}, None), ({"x": 1}, None), None),  # a schedule of a database that noted no rounds
        (({"x": 2}, (1, 6)), ({"x": 1}, (6, 6)), (6, 6)),
        (({"x": 2}, (6, 6)), ({"x": 1}, (1, 6)), (6, 6)),
        (({"x": 2}, (1, 6)), ({"x": 1}, (3, 6)), (3, 6)),
        (({"x": 2}, (3, 6)), ({"x": 1}, (1, 6)), (3, 6)),
        (({}, None), ({"x": 1}, (1, 6)), (1, 6)),
        (({}, (6, 6)), ({"x": 1}, (1, 6)), (1, 6)),  # what a search without a schedule has noted
        (({"x": 1}, (1, 6)), ({}, (6, 6)), (1, 6)),
    ],
)
def test_the_search_that_is_further_counts(tmp_path, own, offered, after):
    rounds = [{} if done is None else {1: done} for _, done in (own, offered)]
    folder = make_folder(tmp_path / "a", {1: own[0]} if own[0] else {}, rounds[0])
    merged(folder, {1: offered[0]} if offered[0] else {}, rounds[1])
    assert read_rounds(folder).get(name_of(1)) == after


LATENCIES = st.dictionaries(
    st.integers(0, 3),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([1e-3, 2e-3, 3e-3]), min_size=1),
)


def drawn_rounds(latencies: Latencies, done: tuple[int, ...]) -> Rounds:
    """Progress of each task with a schedule."""
    return {task: (done[task], 3) for task in latencies}


ROUNDS = st.tuples(*[st.integers(1, 3)] * 4)
SIDE = st.tuples(LATENCIES, ROUNDS).map(lambda drawn: (drawn[0], drawn_rounds(*drawn)))


def union(*sides: tuple[Latencies, Rounds]) -> dict[tuple[str, str], list[float]]:
    """The least latency of each schedule."""
    found: dict[tuple[str, str], float] = {}
    for latencies, _ in sides:
        workloads, records = lines_of(latencies)
        names = [name_of(task) for task in latencies]
        assert len(workloads) == len(names)
        for record in records:
            key = names[record.workload], record.trace
            found[key] = min(found.get(key, 1.0), record.latency_s)
    return {key: [latency_s] for key, latency_s in found.items()}


def folder_of(root: str, *sides: tuple[Latencies, Rounds]) -> Path:
    """A folder of the first side, with the others merged into it."""
    folder = make_folder(Path(root) / str(len(list(Path(root).iterdir()))), *sides[0])
    for side in sides[1:]:
        merged(folder, *side)
    return folder


@given(a=SIDE, b=SIDE)
def test_a_merge_takes_the_least_latency_in_either_order(a, b):
    with TemporaryDirectory() as root:
        there, back = folder_of(root, a, b), folder_of(root, b, a)
        assert schedules_in(there) == schedules_in(back) == union(a, b)
        assert read_rounds(there) == read_rounds(back)


@given(a=SIDE, b=SIDE)
def test_a_second_merge_changes_nothing(a, b):
    with TemporaryDirectory() as root:
        folder = folder_of(root, a, b)
        once = files_of(folder)
        told = merged(folder, *b)
        assert files_of(folder) == once
        assert {task.outcome for task in told.values()} <= {"kept"}


@given(a=SIDE, b=SIDE, c=SIDE)
def test_merges_may_be_grouped(a, b, c):
    with TemporaryDirectory() as root:
        assert (
            schedules_in(folder_of(root, a, b, c)) == schedules_in(folder_of(root, a, c, b)) == union(a, b, c)
        )


# --- kills


def killed_at(step: int, folder: Path, *side) -> bool:
    """Merges in a process that is killed at a step of its writing; False if it ended before it."""
    child = os.fork()
    if not child:
        steps = itertools.count()

        def before(function):
            def counted(*arguments, **options):
                if next(steps) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)

            return counted

        database_folder.os.fsync = before(os.fsync)  # type: ignore[assignment]
        database_folder.os.open = os.open
        Path.open = before(Path.open)  # type: ignore[method-assign]
        Path.replace = before(Path.replace)  # type: ignore[method-assign]
        Path.unlink = before(Path.unlink)  # type: ignore[method-assign]
        status = 1
        try:
            merged(folder, *side)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def test_a_kill_at_any_moment_loses_nothing(tmp_path):
    own = {1: {"x": 4e-3}, 2: {"x": 1e-3}}, {1: (1, 6), 2: (6, 6)}
    new = {1: {"x": 3e-3}, 3: {"x": 5e-3}, 4: {"x": 6e-3}}, {1: (6, 6), 3: (2, 6), 4: (6, 6)}
    whole = make_folder(tmp_path / "whole", *own)
    before, rounds_before = schedules_in(whole), read_rounds(whole)
    merged(whole, *new)
    after, rounds_after = schedules_in(whole), read_rounds(whole)
    seen = set()
    for step in itertools.count():
        folder = make_folder(tmp_path / str(step), *own)
        if not killed_at(step, folder, *new):
            break
        found, rounds = schedules_in(folder), read_rounds(folder)
        seen.add(found == after)
        assert found in (before, after)
        if found == before:  # no search counts as complete without what it found
            assert {name: rounds[name] for name in rounds_before} == rounds_before
            assert all(done < of for name, (done, of) in rounds.items() if name not in rounds_before)
        else:
            assert rounds[name_of(3)] == (2, 6)
        merged(folder, *new)  # the same import again
        assert (schedules_in(folder), read_rounds(folder)) == (after, rounds_after)
    assert step > 6 and seen == {True, False}


@pytest.mark.parametrize("file", [WORKLOAD_FILE, RECORD_FILE, ROUNDS_FILE])
def test_a_full_disk_leaves_the_schedules_of_before(tmp_path, monkeypatch, file):
    folder = make_folder(tmp_path / "a", {1: {"x": 4e-3}})
    before = schedules_in(folder)
    opened = Path.open

    def full(path, mode="r", **options):
        if file in path.name and mode != "r":
            raise OSError(28, "No space left on device")
        return opened(path, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space"):
        merged(folder, {1: {"x": 3e-3}, 2: {"x": 1e-3}}, {2: (1, 6)})
    monkeypatch.undo()
    assert schedules_in(folder) == before
    assert not any("partial" in path.name for path in folder.iterdir())


# --- the lock


class Owner:
    pass


def test_a_folder_that_a_run_has_open_is_not_merged_into(tmp_path):
    runs = [Owner(), Owner()]
    for run in runs:
        hold_open(run, tmp_path)
    told = f"database={tmp_path}: a run is tuning into it"
    with pytest.raises(DatabaseInUseError, match=told), held_alone(tmp_path):
        pass
    runs.clear()
    del run
    with held_alone(tmp_path), pytest.raises(DatabaseInUseError), held_alone(tmp_path):
        pass
