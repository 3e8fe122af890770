"""Table of templates on a GPU (Bolt, Figures 1 and 8, Table 1)."""

from __future__ import annotations

from .reading import Results, markdown, milliseconds, not_measured, times


def problems(results: Results) -> str:
    """One row for each problem, beside the library and, for two products, beside two kernels."""
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
                    times(row["library_s"] / row["latency_s"]),
                    times(row["apart_s"] / row["latency_s"]) if pair else "-",
                ]
            )
    if not rows:
        return not_measured("python -m benchmarks.gpu_templates")
    heads = ["machine", "problem", "template", "latency", "speed of PyTorch's calls", "speed of two kernels"]
    return markdown(heads, rows, "float16. A speed over 1 is the template's lead.")
