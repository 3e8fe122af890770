"""Tables of templates, from results that are worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.tables.padding import layers
from benchmarks.tables.reading import Results
from benchmarks.tables.templates import contests, prefetches, ratings, shapes


def test_a_shape_has_the_fastest_template_of_each_type(tmp_path: Path) -> None:
    def row(dtype: str, instruction: str, latency_s: float) -> dict[str, object]:
        gflops = 1e-6 / latency_s
        return {
            **{"shape": "dense", "dtype": dtype, "instruction": instruction, "latency_s": latency_s},
            **{"gflops": gflops, "share_of_peak": gflops / 2000},
        }

    rows = [
        row("bfloat16", "avx512_bf16", 2e-9),
        row("bfloat16", "amx_bf16", 1e-9),
        row("float32", "avx512_fma", 4e-9),
    ]
    folder = tmp_path / "templates" / "zen5"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"peak_gflops": {}, "shapes": rows}))
    (folder / "manifest.json").write_text(json.dumps({"machine": "zen5"}))
    last = shapes(Results(tmp_path)).splitlines()[-1]
    assert last == "| AMD Zen 5 | dense | 250, 12 % of avx512_fma | 1,000, 50 % of amx_bf16 | - |"


def test_a_contest_has_shares_of_the_peak_and_mean_ratios(tmp_path: Path) -> None:
    def contest(shape: str, rules: float | None, templates: float, onednn: float) -> dict[str, object]:
        shares = {"default_rules": rules, "templates": templates, "onednn": onednn}
        rows = [
            {
                **{"contestant": name, "detail": "torch 2", "share_of_peak": share, "error": ""},
                "disturbed": (shape, name) == ("conv", "onednn"),
            }
            if share is not None
            else {"contestant": name, "error": "it died"}
            for name, share in shares.items()
        ]
        peaks = {"avx512_bf16": 50.0 if shape == "conv" else 100.0}  # something disturbed the second one
        return {"threads": 1, "dtype": "bfloat16", "shape": shape, "rows": rows, "peak_gflops": peaks}

    found = [
        contest("dense", 0.25, 1.0, 0.5),
        contest("conv", None, 1.8, 1.6),
        contest("matmul", 0.5, 1.0, 0.8),
    ]
    folder = tmp_path / "templates" / "zen5"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"trials": 64, "contests": found}))
    manifest = {"machine": "zen5", "started_at": "2026-01-02"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    lines = contests(Results(tmp_path)).splitlines()
    assert lines[2:6] == [
        "| 1 | dense | - | 25 %, 100 %, 50 % | - |",
        "| 1 | conv | - | -, 90 %, ~80 % | - |",
        "| 1 | matmul | - | 50 %, 100 %, 80 % | - |",
        "| 1 | templates over default rules, over oneDNN | -, - | 2.83x of 2, 1.58x of 2 | -, - |",
    ]
    assert "Failed: default rules: it died." in " ".join(lines[6:])
    assert "Other work disturbed 1 of 9 timings (~), which are not in the ratios." in " ".join(lines[6:])


def test_a_rater_has_the_speed_of_what_it_puts_first(tmp_path: Path) -> None:
    rows = [
        {"closed_form": 10.0, "profile": None, "model": -0.9, "latency_s": 1e-6},
        {"closed_form": 5.0, "profile": None, "model": -0.5, "latency_s": 2e-6},
        {"closed_form": 20.0, "profile": None, "model": -0.1, "latency_s": 4e-6},
        {"closed_form": 1.0, "profile": None, "model": -1.0, "latency_s": None},
    ]
    folder = tmp_path / "template_ratings" / "zen5"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"tasks": {"float32": {"net-0": rows, "net-1": rows}}}))
    (folder / "manifest.json").write_text(json.dumps({"machine": "zen5"}))
    lines = ratings(Results(tmp_path)).splitlines()
    assert lines[2:5] == [
        "| AMD Zen 5 | float32 | 2 | closed form | 50 % | 100 % |",
        "| AMD Zen 5 | float32 | 2 | pretrained model | 100 % | 100 % |",
        "| AMD Zen 5 | float32 | 2 | chance | 58 % | 100 % |",  # a third each of 1, 1/2 and 1/4
    ]


def test_first_layers_have_the_speed_over_the_plain_one(tmp_path: Path) -> None:
    forms = {
        "plain": {"latency_s": 2e-3, "difference": 0.003},
        "filled up": {"latency_s": 1e-3, "difference": 0.004},
    }
    folder = tmp_path / "padding" / "zen5"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"layers": {"VGG": forms}}))
    (folder / "manifest.json").write_text(json.dumps({"machine": "zen5"}))
    assert "| AMD Zen 5 | VGG | filled up | 1.00 ms | 2.00x | 4e-03 |" in layers(Results(tmp_path))


def test_prefetches_have_their_speed_beside_none(tmp_path: Path) -> None:
    speeds = {"far": {"with": 300.0, "without": 200.0}, "near": {"with": 400.0, "without": 400.0}}
    row = {
        "shape": "dense",
        "dtype": "float32",
        "rows": 8,
        "vectors": 2,
        "prefetched": True,
        "gflops": speeds,
    }
    folder = tmp_path / "prefetching" / "zen5"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"shapes": [row]}))
    (folder / "manifest.json").write_text(json.dumps({"machine": "zen5"}))
    expected = "| AMD Zen 5 | dense | float32 | 8x2 | yes | 200 | 300 | 1.50x | 1.00x |"
    assert expected in prefetches(Results(tmp_path))
    assert "python -m benchmarks.prefetching" in prefetches(Results(tmp_path / "none"))
