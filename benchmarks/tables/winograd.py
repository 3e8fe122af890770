"""Tables of Winograd's algorithm beside the direct convolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .networks import NETWORKS
from .reading import Results, duration, markdown, milliseconds, not_measured, times

COMMAND = "python -m benchmarks.winograd"

DIRECT = "direct"
KINDS = ("Winograd F(2x2, 3x3)", "Winograd F(4x4, 3x3)")


def layers(results: Results) -> str:
    """One row for each layer: latencies, and how much faster than direct and how far from PyTorch each is."""
    rows = []
    for result in results.of("winograd"):
        for one in result.values["layers"]:
            size, in_channels, out_channels = one["layer"]
            direct = one["forms"][DIRECT]
            cells = [_cell(one["forms"].get(kind), direct["latency_s"]) for kind in KINDS]
            shape = f"{size}x{size}, {in_channels} to {out_channels}"
            rows.append([result.machine, shape, _cell(direct, None), *cells])
    if not rows:
        return not_measured(COMMAND)
    heads = ["machine", "layer", "direct", *(kind.removeprefix("Winograd ") for kind in KINDS)]
    note = (
        "Latency, speed over the direct convolution, and largest difference from PyTorch over the largest "
        "output. A dash is a tile size that the rules do not offer."
    )
    return markdown(heads, rows, note)


def networks(results: Results) -> str:
    """One row for each network, with and without alternatives."""
    rows = []
    for result in results.of("winograd"):
        for name, run in result.values["networks"].items():
            auto, off = (run["forms"][form] for form in ("auto", "off"))
            taken = sum(one["taken"] > 0 for one in run["alternatives"])
            rows.append(
                [
                    result.machine,
                    NETWORKS.get(name, name),
                    milliseconds(off["latency_s"]),
                    milliseconds(auto["latency_s"]),
                    times(off["latency_s"] / auto["latency_s"]),
                    f"{taken} of {len(run['alternatives'])}",
                    f"{auto['difference']:.1e} of {auto['tolerance']:.1e}",
                    duration(auto["total_s"]),
                ]
            )
    if not rows:
        return not_measured(COMMAND)
    heads = [
        "machine",
        "network",
        "off",
        "auto",
        "off / auto",
        "alternatives taken",
        "difference of tolerance",
        "tuning with auto",
    ]
    return markdown(heads, rows)


def _cell(form: Mapping[str, Any] | None, direct_s: float | None) -> str:
    if form is None:
        return "-"
    parts = [milliseconds(form["latency_s"])]
    if direct_s is not None:
        parts.append(times(direct_s / form["latency_s"]))
    return ", ".join([*parts, f"{form['relative_difference']:.0e}"])
