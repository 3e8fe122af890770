"""The benchmark of pretuned starts: which tasks it takes, what a search leaves, and what the table says."""

from __future__ import annotations

import json

from foretune.models.checkpoints.checkpoint import load_checkpoint
from support.paths import ROOT

from benchmarks.pretuned.__main__ import held_out
from benchmarks.single_tasks.search import measured_in
from benchmarks.tables.pretuned import pretuned
from benchmarks.tables.reading import Result


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


class OneResult:
    def __init__(self, values):
        self.result = Result(ROOT, values, {"machine": "zen4", "variant": ""})

    def of(self, benchmark):
        return [self.result] if benchmark == "pretuned" else []


def ran(latencies_s, seconds=10.0):
    return {"seconds": seconds, "latencies_s": latencies_s}


def test_programs_are_counted_until_the_first_round_of_the_other_search_is_reached():
    curves = [
        # After four programs the default search is at 2, which the other one has with its second program.
        (ran([4.0, 3.0, 2.0, 5.0, 1.0]), ran([3.0, 2.0, 2.0, 2.0, 2.0], 20.0)),
        (ran([4.0, 4.0, 4.0, 4.0, 4.0]), ran([8.0, 8.0, 4.0, 1.0, 1.0], 5.0)),
        (ran([]), ran([1.0])),
    ]
    tasks = [{"runs": {"default": default, "pretuned": pretuned}} for default, pretuned in curves]
    for task in tasks:
        others = ("two pretuned", "nearly the same", "without templates", "pretuned, without templates")
        task["runs"] |= {name: ran([]) for name in others}
    table = pretuned(OneResult({"first_round": 4, "tasks": tasks}))
    (row,) = [line for line in table.splitlines() if "four starts, from a similarity of 0.6 on" in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # Best of two: 2 / 2 and 8 / 4; best of four: 2 / 2 and 1 / 4; of all: 2 / 1 and 1 / 4; time: 2 and 1 / 2.
    assert cells[:5] == ["AMD Zen 4", "four starts, from a similarity of 0.6 on", "2", "2.5", "1 of 2"]
    assert cells[5:] == ["1.41x", "0.50x", "0.71x", "1.00x"]
    # A pair of which one search did not run has no row.
    for task in tasks:
        del task["runs"]["two pretuned"]
    assert "two starts" not in pretuned(OneResult({"first_round": 4, "tasks": tasks}))
