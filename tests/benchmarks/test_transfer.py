"""Few-shot transfer: the order of cells, and what the result keeps of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.tables import models
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


def test_the_table_of_hardware_features_has_pairs_of_results():
    def result(spearman, train, kinds=("none",)):
        rows = [{"kind": kind, "k": None, "spearman": spearman, "top_1": 0.7, "r2": 0.5} for kind in kinds]
        sizes = {"test_tasks": 120, "test_records": 2880, "source_records": 68754, "pool_tasks": 240}
        targets = {"id": {"name": "AMD EPYC (id)", **sizes, "summary": rows}}
        return SimpleNamespace(values={"settings": {"data_sha256": "a", "train": train}, "targets": targets})

    trees = ["model=trees"]
    both = [result(0.57, trees), result(0.56, [*trees, models.WITHOUT_HARDWARE])]
    adapted = result(0.9, ["model=mlp"], ("none", "full"))
    results = SimpleNamespace(of=lambda benchmark: [*both, adapted])
    line = "| AMD EPYC (id) | 120 | 2,880 | 68,754 | 0.570 | 0.560 | 0.700 | 0.700 | 0.50 | 0.50 |"
    assert line in models.hardware_features(results)
    assert models.transfer(results).count("tasks to choose from") == 1
    alone = SimpleNamespace(of=lambda benchmark: [*both[:1], adapted])
    assert models.hardware_features(alone) == "Not measured yet: `python -m benchmarks.transfer`."
