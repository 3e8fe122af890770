"""Time over the number of tasks, and the networks that it is measured on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import growing_network
from benchmarks import growth as subject
from benchmarks.growing_network import INPUT, Growing, zoo_layers


def report(tasks: int) -> dict:
    return {
        "tasks": [{}] * tasks,
        "total_s": 10.0 + 0.5 * tasks,
        "stage_s": {"compile": 2.0 + 0.1 * tasks},
        "cores": [
            {"until_s": 1.0, "stage": "compile", "busy_s": {"main": 1.0, "searching": 0.2 * tasks}},
            {"until_s": 2.0, "stage": "", "busy_s": {"main": 3.0}},
            {"until_s": 3.0, "stage": "compile", "busy_s": {"main": 1.0}},
        ],
        "peak_mb": 900.0,
        "estimated_peak_mb": 800.0,
    }


def test_a_row_adds_the_work_of_all_processes_by_stage(monkeypatch) -> None:
    def python_in(checkout, words, *, cwd, timeout_s):
        given = dict(word.partition("=")[::2] for word in words)
        assert given["kwargs"] == "{layers:4,seed:1}" and given["inputs"] == "[[1, 64, 56, 56]]"
        Path(given["output"]).mkdir()
        (Path(given["output"]) / "report.json").write_text(json.dumps(report(5)))
        return ""

    monkeypatch.setattr(subject, "python_in", python_in)
    row = subject.measure(4, 1, [])
    assert (row["layers"], row["tasks"], row["total_s"], row["peak_mb"]) == (4, 5, 12.5, 900.0)
    assert row["stage_cpu_s"] == {"compile": 3.0, "between stages": 3.0} and row["cpu_s"] == 6.0


def test_slopes_are_seconds_for_a_further_task() -> None:
    rows = [subject.row_of(tasks, report(tasks)) for tasks in (10, 40, 150)]
    found = subject.slopes(rows)
    assert found["total_s"] == pytest.approx(0.5) and found["cpu_s"] == pytest.approx(0.2)
    assert found["stage_s"] == {"compile": pytest.approx(0.1)}
    assert found["stage_cpu_s"]["between stages"] == pytest.approx(0.0, abs=1e-9)
    assert subject.slopes(rows[:1]) == {}


@pytest.fixture(scope="module")
def zoo() -> Iterator[None]:
    """Reads the zoo's table once."""
    found = zoo_layers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_network, "zoo_layers", lambda: {key: [*value] for key, value in found.items()})
        yield


@pytest.mark.usefixtures("zoo")
def test_a_network_has_distinct_layers_and_runs() -> None:
    with torch.no_grad():
        network = Growing(40).eval()
        x = torch.randn(1, *INPUT)
        output = network(x)
    assert output.shape[0] == 1 and torch.isfinite(output).all() and output.std() > 1e-3
    shapes = []
    places = [x]
    for module, parent in zip(network.layers, network.parents, strict=True):
        convolution = module[0]
        shapes.append((places[parent].shape, repr(convolution)))
        places.append(module(places[parent]))
    assert len({*shapes}) == 40
    again, other = Growing(40), Growing(40, seed=1)
    assert repr(again) == repr(network) != repr(other)


@pytest.mark.usefixtures("zoo")
def test_the_zoo_has_enough_layers() -> None:
    assert sum(map(len, zoo_layers().values())) > 1000
    with torch.device("meta"):  # without weights
        assert len(Growing(400).layers) == 400
        with pytest.raises(ValueError, match="the zoo has"):
            Growing(100_000)
