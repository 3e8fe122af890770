"""Table of templates, from a result that is worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.tables.reading import Results
from benchmarks.tables.templates import shapes


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
