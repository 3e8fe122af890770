"""Table of templates on a GPU (Bolt, Figures 1 and 8, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .reading import Results, markdown, milliseconds, not_measured, times


def problems(results: Results) -> str:
    """One row for each problem, beside PyTorch and, for two products, beside two kernels."""
    rows = []
    for result in results.of("gpu_templates"):
        for row in result.values["problems"]:
            tiling = row["tiling"]
            blocks = "x".join(str(tiling[f"block_{letter}"]) for letter in "mnk")
            pair = row["kernel"] == "back_to_back"
            rows.append(
                [
                    result.machine,
                    row["name"],
                    f"{blocks}, {tiling['warps']} warps",
                    milliseconds(row["latency_s"]),
                    *(_lead(row, rival) for rival in ("library_s", "compiler_s")),
                    _lead(row, "apart_s") if pair else "-",
                    times(_first_choice(row["estimates"])),
                ]
            )
    if not rows:
        return not_measured("python -m benchmarks.gpu_templates")
    heads = ["machine", "problem", "template", "latency"]
    heads += [f"over {rival}" for rival in ("PyTorch's calls", "torch.compile", "two kernels")]
    note = (
        "float16; flushed caches. A figure over 1x is the template's lead. torch.compile tunes its own "
        "kernels (`max-autotune-no-cudagraphs`). First choice: speed of the template that the closed form "
        "puts first, over that of the fastest measured in one run."
    )
    note = " ".join((note, *(result.manifest["notes"] for result in results.of("gpu_templates"))))
    return markdown([*heads, "first choice"], rows, note)


def _lead(row: Mapping[str, Any], rival: str) -> str:
    return times(None if row[rival] is None else row[rival] / row["latency_s"])


def _first_choice(estimates: Sequence[tuple[float, float]]) -> float:
    return min(seconds for _, seconds in estimates) / estimates[0][1]
