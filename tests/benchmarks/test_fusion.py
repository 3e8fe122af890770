"""Table of back-to-back fusion, from a result that is worked by hand, and the layers that it is about."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from benchmarks.fusion import layers as layers_module
from benchmarks.fusion.layers import LAYERS
from benchmarks.tables.fusion import layers
from benchmarks.tables.reading import Results


def test_a_row_has_the_fastest_way_to_fuse(tmp_path: Path) -> None:
    rows = [
        {
            **{"layers": "inverted residual", "published": None, "separate_s": 3e-5},
            "fused_s": {"3": 4e-5, "1 + 2": 2e-5},
        },
        {"layers": "dense", "published": 1.24, "separate_s": None, "fused_s": {}},
    ]
    folder = tmp_path / "fusion" / "zen5"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"rows": rows}))
    (folder / "manifest.json").write_text(json.dumps({"machine": "zen5"}))
    assert layers(Results(tmp_path)).splitlines()[2:] == [
        "| AMD Zen 5 | inverted residual | 30 us | 20 us | 1 + 2 | 1.50x | - |",
        "| AMD Zen 5 | dense | - | not offered | - | - | 1.24x |",
    ]
    assert layers(Results(tmp_path / "none")) == "Not measured yet: `python -m benchmarks.fusion`."


def test_the_layers_are_those_of_bolt_and_mobilenet() -> None:
    assert [row.published for row in LAYERS[:10]] == [
        *(1.24, 1.34, 1.28, 1.46),
        *(1.10, 1.41, 1.87, 1.24, 1.12, 2.02),
    ]
    assert len({row.name for row in LAYERS}) == len(LAYERS) == 21
    for row in LAYERS:
        network = getattr(layers_module, row.network)(**row.kwargs)
        shape = (2, *row.shape[1:]) if len(row.shape) == 2 else row.shape
        with torch.inference_mode():
            assert network(torch.zeros(shape)).shape[0] == shape[0]
