"""Costs of activations in a file: a restart, other conditions, a kill."""

from __future__ import annotations

from pathlib import Path

from foretune.inference.bolt.advice.cost_file import KeptCosts
from foretune.inference.bolt.advice.exchange import Cost

HERE = {"hardware": "a", "target": "llvm"}
COSTS = {"relu": Cost(1e-3, 1e-3, 3, [0.0, 0.0]), "gelu": Cost(1e-3, 2e-3, 2, [1e-3, 1.5e-3])}


def test_a_restart_reads_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "costs.jsonl"
    KeptCosts(path, HERE).keep("one", ["relu", "gelu", "silu"], COSTS)
    again = KeptCosts(path, HERE)
    assert again.costs("one", ["gelu", "relu"]) == COSTS
    assert again.costs("one", ["silu"]) == COSTS  # asked for, and no program has it
    assert again.costs("one", ["relu", "tanh"]) is None
    assert again.costs("two", ["relu"]) is None
    assert KeptCosts(path, {**HERE, "hardware": "b"}).costs("one", ["relu"]) is None


def test_disturbed_costs_are_kept_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "costs.jsonl"
    KeptCosts(path, HERE).keep("one", ["relu"], COSTS, disturbed=True)
    KeptCosts(path, HERE).keep("two", ["relu"], COSTS)
    again = KeptCosts(path, HERE)
    assert again.costs("one", ["relu"]) == COSTS
    assert again.is_disturbed("one") and not again.is_disturbed("two")
    again.keep("one", ["relu"], COSTS)
    assert not KeptCosts(path, HERE).is_disturbed("one")


def test_the_last_of_several_counts(tmp_path: Path) -> None:
    path = tmp_path / "costs.jsonl"
    kept = KeptCosts(path, HERE)
    kept.keep("one", ["relu"], {"relu": Cost(1.0, 1.0, 1, [0.0])})
    kept.keep("one", ["relu", "gelu"], COSTS)
    assert kept.costs("one", ["relu"]) == KeptCosts(path, HERE).costs("one", ["relu"]) == COSTS


def test_without_a_file_costs_last_as_long_as_the_run() -> None:
    kept = KeptCosts(None, HERE)
    kept.keep("one", ["relu"], COSTS)
    assert kept.costs("one", ["relu"]) == COSTS


def test_a_line_that_a_kill_cut_off_is_dropped_and_the_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "costs.jsonl"
    kept = KeptCosts(path, HERE)
    kept.keep("one", ["relu"], COSTS)
    kept.keep("two", ["relu"], COSTS)
    path.write_bytes(path.read_bytes()[:-20])
    again = KeptCosts(path, HERE)
    assert again.costs("one", ["relu"]) == COSTS
    assert again.costs("two", ["relu"]) is None
    again.keep("three", ["relu"], COSTS)
    assert KeptCosts(path, HERE).costs("three", ["relu"]) == COSTS
