"""Table of templates on a GPU (Bolt, Figures 1 and 8, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..gpu_templates.problems import DEPARTURES, ONE_TEXT
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
                    f"{blocks}, {tiling['warps']} warps{_parts(tiling)}",
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
    measured = {row[1] for row in rows}
    departures = [text for name, text in DEPARTURES.items() if name in measured]
    missing = [name for name in ONE_TEXT if name not in measured]
    if missing:
        departures.append(
            f"No GPU has measured the kernels of one text yet ({len(missing)} of {len(ONE_TEXT)} problems: "
            "divided sums, layer norm, softmax and attention)."
        )
    note = " ".join(
        (note, *departures, *(result.manifest["notes"] for result in results.of("gpu_templates")))
    )
    return markdown([*heads, "first choice"], rows, note)


def _parts(tiling: Mapping[str, int]) -> str:
    """Results that are older than divided sums do not tell the number of parts."""
    parts = tiling.get("parts", 1)
    return f", {parts} parts" if parts > 1 else ""


def _lead(row: Mapping[str, Any], rival: str) -> str:
    return times(None if row[rival] is None else row[rival] / row["latency_s"])


def _first_choice(estimates: Sequence[tuple[float, float]]) -> float:
    return min(seconds for _, seconds in estimates) / estimates[0][1]
