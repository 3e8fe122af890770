"""Engines at several sizes of a network that doubles its input, each in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks import load_network
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs
from foretune.compiler.networks.inputs import example_inputs
from foretune.inference.dynamic.comparison import (
    EngineStart,
    Entrant,
    SizesComparison,
    SizeTiming,
    bounds_of,
    megabytes,
    rivals_named,
)
from foretune.inference.dynamic.rivals import RivalTimings
from foretune.inference.dynamic.sizes import sizes_to_time
from rich.console import Console
from support.paths import ROOT

DYNAMIC: dict[str, Any] = {
    "network": "support.networks:Double",
    "inputs": [["b", "2*n", 3]],
    "batch": 1,
    "dims": {"b": "1:4", "n": "1:8"},
}
SMALL, LARGE = {"b": 1, "n": 1}, {"b": 4, "n": 8}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def compared(entrants: Sequence[Entrant]) -> tuple[dict[str, EngineStart], list[list[SizeTiming]]]:
    """Starts of the engines, and their rows at two sizes."""
    dynamic = dynamic_inputs(**DYNAMIC)
    arguments = {"name_or_path": DYNAMIC["network"], "inputs": dynamic.at(dynamic.traced), "seed": 0}
    with SizesComparison(
        *(load_network(**arguments), arguments, DYNAMIC, dynamic),
        lambda sizes: example_inputs(dynamic.at(sizes), 0),
        entrants,
        limit_s=300.0,
    ) as comparison:
        comparison.start()
        rows = [comparison.at(sizes, repeats=1, seconds=0.01) for sizes in (SMALL, LARGE)]
        return comparison.starts, rows


def test_engines_run_each_size_and_wrong_ones_have_the_reason(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.write_bytes(b"0" * 500_000)

    def entrant(kind: str, **changes: Any) -> Entrant:
        return Entrant(kind, f"support.engines:{kind}", library, **changes)

    kinds = [
        entrant("Doubling", before_s=40.0),
        entrant("Tripling"),
        entrant("WrongShape"),
        entrant("Raising"),
    ]
    starts, (small, large) = compared([*kinds, Entrant("one", "support.engines:Doubling", library, [LARGE])])
    assert starts["Doubling"].error == starts["one"].error == ""
    assert [row.name for row in small] == ["Doubling"] and [row.name for row in large] == ["Doubling", "one"]
    for row, sizes in ((small[0], SMALL), *((row, LARGE) for row in large)):
        assert row.sizes == sizes and row.error == "" and row.max_abs_difference == 0.0
        assert row.latency_s is not None and row.latency_s > 0 and row.first_s is not None
        assert row.compilations is None
    ready_s, file_mb = starts["Doubling"].ready_s, starts["Doubling"].file_mb
    assert ready_s is not None and 40 < ready_s < 100 and file_mb == 0.5
    assert starts["Doubling"].peak_mb is not None and starts["Doubling"].version.startswith("numpy ")
    assert "other outputs at b=" in starts["Tripling"].error
    assert "shape" in starts["WrongShape"].error
    assert starts["Raising"].error == "no such operator: doubling"


def test_an_engine_that_is_not_installed_is_left_out() -> None:
    starts, rows = compared([Entrant("absent", "support.engines:Absent", Path("x"))])
    assert "no_such_package is not installed" in starts["absent"].error and rows == [[], []]


def test_bounds_are_the_ranges_of_the_extents() -> None:
    dynamic = dynamic_inputs(**{**DYNAMIC, "inputs": [["b", "2*n", 3], {"value": [1, 2]}]})
    arrays = example_inputs(dynamic.at(SMALL), 0)
    assert bounds_of(dynamic, arrays) == [((1, 4), (2, 16), 3), (2,)]
    symbols = dynamic.symbols
    assert sizes_to_time(symbols) == [SMALL, {"b": 2, "n": 3}, LARGE]
    assert sizes_to_time({"b": symbols["b"]}) == [{"b": 1}, {"b": 2}, {"b": 4}]


def test_a_file_counts_with_its_weights(tmp_path: Path) -> None:
    for name, size in (("net.onnx", 1000), ("net.onnx.data", 2000), ("other", 4000)):
        (tmp_path / name).write_bytes(b"0" * size)
    assert megabytes(tmp_path / "net.onnx") == pytest.approx(0.003)


def test_rivals_have_a_table_and_remarks() -> None:
    own, other = EngineStart("tuned TVM"), EngineStart("OpenVINO", error="cannot read it")
    timings = (
        SizeTiming("tuned TVM", {"n": 1}, 0.002),
        SizeTiming("tuned TVM", {"n": 8}, 0.004, disturbed=True),
    )
    found = RivalTimings((own, other), timings)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(found.table())
    text = capture.get()
    assert "2.00 ms" in text and "4.00 ms (disturbed)" in text and "n=8" in text
    assert found.remarks() == ["OpenVINO is left out: cannot read it"]
    eager, openvino = rivals_named(["eager", "openvino"], Path("a.onnx"))
    assert (eager.name, eager.path, openvino.name, openvino.path) == (
        *("PyTorch eager", None, "OpenVINO", Path("a.onnx")),
    )


def test_a_rival_in_another_data_type_is_named() -> None:
    own, eager = EngineStart("tuned TVM", dtype="bfloat16"), EngineStart("eager", dtype="bfloat16")
    found = RivalTimings((own, eager, EngineStart("ONNX Runtime", dtype="float32")))
    assert found.remarks() == ["ONNX Runtime runs in float32"]
