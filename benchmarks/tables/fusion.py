"""Table of back-to-back fusion by layers (Bolt, Tables 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .reading import Results, markdown, not_measured


def layers(results: Results) -> str:
    """One row for each pair or block, with the fastest way to fuse it beside the separate functions."""
    rows = [
        [result.machine, *_cells(row)] for result in results.of("fusion") for row in result.values["rows"]
    ]
    if not rows:
        return not_measured("python -m benchmarks.fusion")
    heads = ["machine", "layers", "separate", "fused", "calls", "speed-up", "Bolt on a T4"]
    return markdown(heads, rows)


def _cells(row: Mapping[str, Any]) -> list[str]:
    published = "-" if row["published"] is None else f"{row['published']:.2f}x"
    if row["separate_s"] is None:
        return [row["layers"], "-", "not offered", "-", "-", published]
    way, fused_s = min(row["fused_s"].items(), key=lambda item: item[1])
    ratio = row["separate_s"] / fused_s
    return [
        *(row["layers"], f"{1e6 * row['separate_s']:,.0f} us", f"{1e6 * fused_s:,.0f} us"),
        *(way, f"{ratio:.2f}x", published),
    ]
