"""Table of templates by shape and data type (Bolt, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .reading import Results, markdown

TYPES = ("float32", "bfloat16", "uint8")


def shapes(results: Results) -> str:
    """One row for each shape, with the fastest template of each data type."""
    rows = []
    for result in results.of("templates"):
        best: dict[tuple[str, str], Mapping[str, Any]] = {}
        for row in result.values["shapes"]:
            key = row["shape"], row["dtype"]
            if key not in best or row["latency_s"] < best[key]["latency_s"]:
                best[key] = row
        for shape in dict.fromkeys(row["shape"] for row in result.values["shapes"]):
            cells = [_cell(best.get((shape, dtype))) for dtype in TYPES]
            rows.append([result.machine, shape, *cells])
    return markdown(["machine", "shape", *(f"{dtype}: GFLOP/s, share of peak" for dtype in TYPES)], rows)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "-"
    return f"{row['gflops']:,.0f}, {100 * row['share_of_peak']:.0f} % of {row['instruction']}"
