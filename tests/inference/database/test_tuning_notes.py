"""Notes beside a tuning database."""

from __future__ import annotations

import math

from foretune.compiler.operators import Dense, to_task
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
