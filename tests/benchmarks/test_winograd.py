"""Tables of Winograd's algorithm, from a result that is worked by hand, and the layers that are measured."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.tables.reading import Results
from benchmarks.tables.winograd import DIRECT, KINDS, layers, networks
from benchmarks.winograd import layers as measured
from benchmarks.winograd import networks as tuned


def form(latency_s: float, difference: float) -> dict[str, float]:
    return {"latency_s": latency_s, "relative_difference": difference}


def results(folder: Path) -> Results:
    alternatives = [{"taken": 3}, {"taken": 0}]
    result = {
        "layers": [
            {
                "layer": [56, 64, 64],
                "forms": {DIRECT: form(2e-3, 2e-7), KINDS[0]: form(1e-3, 4e-7), KINDS[1]: form(4e-3, 5e-6)},
            },
            {"layer": [7, 512, 512], "forms": {DIRECT: form(1e-3, 2e-7), KINDS[0]: form(0.5e-3, 3e-7)}},
        ],
        "networks": {
            "resnet18": {
                "alternatives": alternatives,
                "forms": {
                    "auto": {"latency_s": 4e-3, "difference": 2e-5, "tolerance": 1e-3, "total_s": 90.0},
                    "off": {"latency_s": 8e-3, "difference": 1e-5, "tolerance": 1e-3},
                },
            }
        },
    }
    path = folder / "winograd" / "zen5"
    path.mkdir(parents=True)
    (path / "result.json").write_text(json.dumps(result))
    (path / "manifest.json").write_text(json.dumps({"machine": "zen5", "variant": ""}))
    return Results(folder)


def test_a_layer_has_each_way_beside_the_direct_one(tmp_path: Path) -> None:
    rows = [line for line in layers(results(tmp_path)).splitlines() if line.startswith("| AMD")]
    assert rows == [
        "| AMD Zen 5 | 56x56, 64 to 64 | 2.00 ms, 2e-07 | 1.00 ms, 2.00x, 4e-07 | 4.00 ms, 0.50x, 5e-06 |",
        "| AMD Zen 5 | 7x7, 512 to 512 | 1.00 ms, 2e-07 | 0.500 ms, 2.00x, 3e-07 | - |",
    ]


def test_a_network_has_both_forms(tmp_path: Path) -> None:
    last = networks(results(tmp_path)).splitlines()[-1]
    assert (
        last
        == "| AMD Zen 5 | ResNet-18 | 8.00 ms | 4.00 ms | 2.00x | 1 of 2 | 2.0e-05 of 1.0e-03 | 1 min 30 s |"
    )


def test_without_a_result_the_command_stands_there(tmp_path: Path) -> None:
    for table in (layers, networks):
        assert table(Results(tmp_path)) == "Not measured yet: `python -m benchmarks.winograd`."


def test_the_names_are_those_of_the_benchmark() -> None:
    assert DIRECT == measured.DIRECT
    assert set(tuned.FORMS) == {"auto", "off"}
    assert len(set(measured.LAYERS)) == len(measured.LAYERS) == 12
