"""Few-shot transfer: the order of cells, and what the result keeps of them."""

from __future__ import annotations

import pytest

from benchmarks.transfer.__main__ import compact
from benchmarks.transfer.study import METRICS, pending, summarised


def test_the_benchmark_runs_devices_in_turn_seed_by_seed():
    class Runner:
        def cells(self):
            return dict.fromkeys(["none/0/0", "full/0/0", "fasor/5/0", "full/0/1", "fasor/5/1"])

    finished = {"a": {"cells": {"full/0/0": {}}}, "b": {"cells": {}}}
    assert [(target, name) for target, name, _ in pending({"a": Runner(), "b": Runner()}, finished)] == [
        ("a", "none/0/0"),
        ("b", "none/0/0"),
        ("b", "full/0/0"),
        ("a", "fasor/5/0"),
        ("b", "fasor/5/0"),
        ("a", "full/0/1"),
        ("b", "full/0/1"),
        ("a", "fasor/5/1"),
        ("b", "fasor/5/1"),
    ]


def test_the_result_keeps_means_over_seeds():
    def cell(value):
        return dict.fromkeys(METRICS, value)

    cells = {"none/0/0": cell(0.5), "full/0/0": cell(0.9), "fasor/10/0": cell(0.6), "fasor/10/1": cell(0.8)}
    entry = {"name": "a", "pool_tasks": 52, "cells": cells, "seconds": {}, "summary": summarised(cells)}
    kept = compact({"settings": {"source": None}, "cells_left": 0, "targets": {"id": entry}})
    assert set(kept["targets"]["id"]) == {"name", "pool_tasks", "summary"}
    by_kind = {(row["kind"], row["k"]): row for row in kept["targets"]["id"]["summary"]}
    assert by_kind["fasor", 10]["seeds"] == 2
    assert by_kind["fasor", 10]["spearman"] == pytest.approx(0.7)
    assert by_kind["none", None]["r2"] == 0.5
