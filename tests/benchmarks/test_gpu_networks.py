"""The contest on a GPU: equal measurements, rivals beside the first, and a search of stock that goes on."""

from __future__ import annotations

import json
import math

from benchmarks.gpu_networks import __main__ as contest
from benchmarks.kept_runs import KeptRuns


def row(rival: str, latency_s: float):
    of = {"network": "net", "dtype": "float32", "version": "1", "latency_s": latency_s, "ready_s": 9.0}
    return {**of, "rival": rival, "peak_mb": 1, "disturbed": False, "error": ""}


def test_all_contestants_measure_as_much_as_the_first(tmp_path, monkeypatch):
    asked, left = [], [3, 0, 0]

    def measure(network, overrides, *, rival_limit_s, rivals):
        asked.append((overrides, rivals))
        rows = [row("foretune", 1e-3), *(row(rival, 2e-3) for rival in rivals)]
        return {"rows": rows, "measured": 40, "peak": {"tasks": 4}}

    def python_in(checkout, words, **options):
        asked.append(words)
        found = {"left": left.pop(0), "measured": 40, "latency_s": 3e-3, "ready_s": 50.0}
        return json.dumps({**found, "failed": [], "unscheduled": []})

    monkeypatch.setattr(contest, "measure", measure)
    monkeypatch.setattr(contest, "python_in", python_in)
    words = ["--networks", "net", "--runs-in", str(tmp_path), "--minutes", "5", "--stock-trials", "64"]
    given = contest.arguments_of(words)
    runs = KeptRuns(given, math.inf)
    rows = contest.Contest(given, runs, "net", 0).rows()
    # Stock had no time for three of its tasks.
    assert [one["contestant"] for one in rows] == [
        *("checkpoint=cuda", "eager", "inductor", "inductor_max_autotune", "checkpoint=null", "stock, long")
    ]
    assert runs.left_out == ["net-float32-0-stock (3 tasks)"]
    assert "checkpoint=null" in asked[1][0] and "search.top_k=10" in asked[1][0] and asked[1][1] == ()
    assert asked[2][asked[2].index("--trials") + 1] == "10"
    assert asked[3][asked[3].index("--trials") + 1] == "64"

    again = KeptRuns(given, math.inf)
    rows = contest.Contest(given, again, "net", 0).rows()
    assert len(asked) == 5 and not again.left_out  # the others are kept
    assert {one["contestant"]: one["measured"] for one in rows}["stock"] == 40


def test_without_time_nothing_begins_and_all_is_named(tmp_path, monkeypatch):
    given = contest.arguments_of(["--runs-in", str(tmp_path), "--minutes", "-1"])
    runs = KeptRuns(given, math.inf)
    assert contest.Contest(given, runs, "net", 1).rows() == []
    assert runs.left_out == ["net-float32-1-checkpoint-cuda"]
