"""Notes beside a tuning database."""

from __future__ import annotations

import math

from foretune.compiler.operators import Dense, to_task
from foretune.inference.database.task_note import TaskNote
from foretune.inference.database.tuning_notes import NOTES_FILE, TaskName, TuningNotes

FIRST, SECOND = (to_task(Dense(rows=8, in_features=8, out_features=extent)) for extent in (8, 16))
NETWORK = {"network": "resnet18", "inputs": None, "batch": 1}


def test_what_is_noted_is_read_again_and_the_last_line_counts(tmp_path):
    notes = TuningNotes(tmp_path / NOTES_FILE)
    assert notes.untuned_s(FIRST) is None and notes.ended(FIRST) == ""
    notes.note_untuned(FIRST, 0.5)
    notes.note_untuned(SECOND, math.inf)
    notes.note_ended(FIRST, "untuned is faster")
    notes.note_ended(SECOND, "nothing to tune")
    notes.note_ended(SECOND, "")
    notes.note_nothing_left(NETWORK)
    for read in (notes, TuningNotes(tmp_path / NOTES_FILE)):
        assert (read.untuned_s(FIRST), read.untuned_s(SECOND)) == (0.5, math.inf)
        assert (read.ended(FIRST), read.ended(SECOND)) == ("untuned is faster", "")
        assert read.expects_nothing(dict(reversed(NETWORK.items())))
        assert not read.expects_nothing({**NETWORK, "batch": 2})


def test_what_is_known_is_not_written_twice(tmp_path):
    notes = TuningNotes(tmp_path / NOTES_FILE)
    for _ in range(2):
        notes.note_untuned(FIRST, math.inf)
        notes.note_ended(FIRST, "nothing to tune")
        notes.note_nothing_left(NETWORK)
    assert len((tmp_path / NOTES_FILE).read_text().splitlines()) == 3


def test_notes_without_a_file_are_kept_for_the_run_alone():
    notes = TuningNotes()
    notes.note_untuned(FIRST, 0.5)
    assert notes.untuned_s(FIRST) == 0.5


def test_a_parent_is_read_again_and_may_be_taken_back(tmp_path):
    child, other = (to_task(Dense(rows=2, in_features=3, out_features=n)) for n in (4, 5))
    parent = TaskName("dense", "0123456789abcdef")
    notes = TuningNotes(tmp_path / NOTES_FILE)
    notes.note_parent(child, parent)
    notes.note_parent(child, parent)
    notes.note_parent(other, None)  # as nothing is noted of it
    assert len((tmp_path / NOTES_FILE).read_text().splitlines()) == 1
    again = TuningNotes(tmp_path / NOTES_FILE)
    assert (again.parent(child), again.parent(other)) == (parent, None)
    again.note_parent(child, None)
    assert TuningNotes(tmp_path / NOTES_FILE).parent(child) is None


def test_notes_move_to_another_database_on_the_same_device(tmp_path):
    first = TuningNotes(tmp_path / "first.json")
    first.note_untuned(FIRST, 0.5)
    first.note_untuned(SECOND, math.inf)
    first.note_ended(FIRST, "untuned is faster")
    first.note_left(SECOND, "no candidate ran")
    first.note_parent(SECOND, TaskName(FIRST.name, FIRST.workload_hash))
    moved = first.of_tasks()
    assert moved == {
        FIRST.workload_hash: TaskNote(FIRST.workload_hash, FIRST.name, "untuned is faster", "", 0.5),
        SECOND.workload_hash: TaskNote(
            SECOND.workload_hash,
            SECOND.name,
            left="no candidate ran",
            untuned_fails=True,
            parent=FIRST.workload_hash,
            parent_name=FIRST.name,
        ),
    }
    second = TuningNotes(tmp_path / "second.json")
    second.adopt(list(moved.values()), tuned=(), added=[SECOND.workload_hash])
    for read in (second, TuningNotes(tmp_path / "second.json")):
        assert read.of_tasks() == moved
    content = (tmp_path / "second.json").read_text()
    second.adopt(list(moved.values()), tuned=(), added=[SECOND.workload_hash])
    assert (tmp_path / "second.json").read_text() == content


def test_own_notes_and_schedules_go_before_those_of_another_database():
    own = TuningNotes()
    own.note_untuned(FIRST, 0.25)
    own.note_ended(FIRST, "nothing to tune")
    names = [task.workload_hash for task in (FIRST, SECOND)]
    others = [TaskNote(name, ended="untuned is faster", untuned_s=0.5) for name in names]
    own.adopt(others, tuned=[SECOND.workload_hash], added=())
    assert (own.untuned_s(FIRST), own.ended(FIRST)) == (0.25, "nothing to tune")
    assert (own.untuned_s(SECOND), own.ended(SECOND)) == (0.5, "")


def test_notes_that_are_only_read_stay_as_they_are(tmp_path):
    TuningNotes(tmp_path / NOTES_FILE).note_untuned(FIRST, 0.5)
    content = (tmp_path / NOTES_FILE).read_text()
    notes = TuningNotes(tmp_path / NOTES_FILE, read_only=True)
    notes.note_untuned(SECOND, 0.5)
    assert notes.untuned_s(SECOND) == 0.5
    assert (tmp_path / NOTES_FILE).read_text() == content
