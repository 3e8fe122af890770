"""Single tasks: names stand for tasks, programs of all runs are timed together and once."""

from __future__ import annotations

import pytest
from foretune.compiler.tvm_compat import parse_target
from support.paths import ROOT

from benchmarks.single_tasks import __main__ as single_tasks
from benchmarks.single_tasks.search import config_of
from benchmarks.tasks import is_operator, tasks_named


def test_operators_are_named_by_their_configuration():
    (first, task), (second, other) = tasks_named(["GMM:0", "GMM:1"], parse_target("llvm"))
    assert (first, second) == ("GMM-0", "GMM-1")
    assert task.workload_hash != other.workload_hash
    assert task.flops == 2 * 128**3
    assert is_operator("GMM") and not is_operator("resnet18")


def test_programs_of_all_runs_are_timed_in_one_go(tmp_path, monkeypatch):
    asked = []

    def time_in_turns(modules, target, *, flush):
        asked.append((list(modules), flush))
        return [{"a": 1.0, "b": 2.0}[module] * (1 if flush else 0.5) for module in modules]

    monkeypatch.setattr(single_tasks, "time_in_turns", time_in_turns)
    runs = {
        "this": [{"seconds": 3.0, "module": "b"}, {"seconds": 4.0, "module": None}],
        "other": [{"seconds": 5.0, "module": "a"}],
    }
    for _ in range(2):
        timed = single_tasks.with_latencies(runs, None, tmp_path, again=False)
        assert timed["this"] == [
            {"seconds": 3.0, "cold_s": 2.0, "warm_s": 1.0},
            {"seconds": 4.0, "cold_s": None, "warm_s": None},
        ]
        assert timed["other"] == [{"seconds": 5.0, "cold_s": 1.0, "warm_s": 0.5}]
    assert asked == [(["a", "b"], True), (["a", "b"], False)]
    assert "this 3.5 s, 2000.0000 ms" in single_tasks.describe("GMM-0", timed)


def test_contestants_are_settings_or_checkouts(tmp_path):
    def contestants(*words):
        return single_tasks.contestants_of(single_tasks.arguments_of(words))

    assert contestants() == {"default": (ROOT, ())}
    assert contestants("--settings", "", "rounds=3 top_k=24") == {
        "default": (ROOT, ()),
        "rounds=3 top_k=24": (ROOT, ("rounds=3", "top_k=24")),
    }
    assert contestants("--against", str(tmp_path), "--settings", "rounds=3") == {
        "this": (ROOT, ("rounds=3",)),
        "other": (tmp_path, ("rounds=3",)),
    }


def test_checkouts_are_not_compared_with_several_settings(tmp_path, capsys):
    with pytest.raises(SystemExit):
        single_tasks.arguments_of(["--against", str(tmp_path), "--settings", "", "rounds=3"])
    assert "one of --settings at most" in capsys.readouterr().err


def test_settings_of_a_search_are_read_from_words():
    words = ["rounds=60", "top_k=96", "overlap=none", "stop.minimum=4", "checkpoint=cpu-latency"]
    config, further = config_of(words, seed=5)
    assert (config.rounds, config.top_k, config.overlap, config.seed) == (60, 96, "none", 5)
    assert config.stop.minimum == 4 and config.stop.batch == type(config)().stop.batch
    assert further == {"checkpoint": "cpu-latency"}
