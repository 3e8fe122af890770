"""The benchmark of pretuned starts: its tasks, and the latencies that a search leaves."""

from __future__ import annotations

import json

from foretune.models.checkpoints.checkpoint import load_checkpoint
from support.paths import ROOT

from benchmarks.pretuned import held_out
from benchmarks.single_tasks.search import measured_in


def test_tasks_are_of_the_test_part_of_the_checkpoint_and_in_an_order_by_chance():
    folders = [ROOT / "data" / "cpu-last", ROOT / "data" / "cpu-zen5"]
    names = [row.workload_hash for row in held_out(folders, "cpu", 0)]
    tested = set(load_checkpoint("cpu").card.split.tasks("test"))
    assert names and len(set(names)) == len(names) and tested.issuperset(names)
    other = [row.workload_hash for row in held_out(folders, "cpu", 1)]
    assert sorted(other) == sorted(names) and other != names


def test_a_search_leaves_its_latencies_in_order_and_each_program_once(tmp_path):
    folder = tmp_path / "of a device"
    folder.mkdir()
    measured = [("first", [0.3, 0.2]), ("second", [0.5]), ("first", [0.1])]
    lines = [json.dumps([0, [[trace], seconds, {}, []]]) for trace, seconds in measured]
    (folder / "database_tuning_record.json").write_text("\n".join(lines) + "\n")
    assert measured_in(tmp_path) == [0.2, 0.5]
