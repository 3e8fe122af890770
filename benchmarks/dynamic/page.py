"""Page of the benchmark: latency over the size of each network, with the rivals and the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from foretune.figures import AFTER, BAD, BEFORE, HALF, INK, PEER, canvas, fragment, log_axis
from foretune.page import Fact, Facts, Page, Plot, Plots, Table, columns, to_html
from foretune.wording import MISSING, counted, times

from ..tables.declare import name_of
from .engines import BUCKETS, ENGINES, FIXED, FORETUNE, SEARCHED
from .summary import claimed

STYLES = {
    FORETUNE: (AFTER, "-", "o"),
    BUCKETS: (BEFORE, "--", "."),
    FIXED: (INK, "none", "x"),
    SEARCHED: (INK, "none", "+"),
    "openvino": (PEER, "-", "."),
    "onnxruntime": (PEER, "--", "."),
    "inductor": (BAD, ":", "."),
}
"""Colour, line and marker of each engine."""


def write_page(result: Mapping[str, Any], path: Path) -> None:
    """Writes a result as a self-contained page."""
    parts: list[Facts | Plots | Table] = [_facts(result["summary"]), _table(result["networks"])]
    for network in result["networks"]:
        rows = [row for row in result["rows"] if row["network"] == network]
        if plots := [_plot(network, rows, relative) for relative in (False, True) if claimed(rows)]:
            parts.append(Plots(plots))
    subtitle = f"One library for all sizes of a range, {counted(result['threads'], 'thread')}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_html(Page("Dynamic shapes", subtitle, parts)), encoding="utf-8")


def share(value: float | None) -> str:
    """A share in percent, or MISSING."""
    return MISSING if value is None else f"{value:.0%}"


def _facts(summary: Mapping[str, Any]) -> Facts:
    return Facts(
        [
            Fact("networks", str(summary["networks"]), f"{summary['without_library']} without a library"),
            Fact(
                "over the best rival",
                times(summary["over_best_rival"]),
                f"{times(summary['least_over_best_rival'])} at the worst size",
            ),
            Fact("over padded buckets", times(summary["over_buckets"]), "geometric mean"),
            Fact(
                "regret", share(summary["mean_regret"]), f"{share(summary['worst_regret'])} at the worst size"
            ),
        ],
        headline=True,
    )


def _table(networks: Mapping[str, Mapping[str, Any]]) -> Table:
    heads = [
        "network",
        "sizes",
        "over best rival",
        "at worst",
        "over buckets",
        "mean regret",
        "worst",
        "ready over fixed",
        "memory over fixed",
        "remark",
    ]
    rows = [
        [
            name_of("dynamic_network", name),
            str(one["sizes"]),
            times(one["over_best_rival"]),
            times(one["least_over_best_rival"]),
            times(one["over_buckets"]),
            share(one["mean_regret"]),
            share(one["worst_regret"]),
            times(one.get("ready_over_fixed")),  # earlier results lack both
            times(one.get("peak_over_fixed")),
            one["error"],
        ]
        for name, one in networks.items()
    ]
    note = (
        "Ratios are latencies divided by the latency of the library for all sizes; above 1 is a gain. Regret "
        "is its extra time over a library for the size alone. The last two ratios are costs of the library: "
        "the time to build it, over the median time of libraries of one size, and its memory at the largest "
        "sizes, over the memory of a library of these sizes."
    )
    return Table("Networks", columns(*heads), rows, note)


def axis_of(rows: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, int]]:
    """Title of the axis, and the place of each size on it; sizes that do not lie on a line have none.

    The axis is the symbol with the most values. Other symbols keep their most frequent value, unless all
    symbols change together; then the axis is their product.
    """
    sizes = {row["size"]: row["sizes"] for row in rows if row["size"]}
    names = list(next(iter(sizes.values())))
    longest = max(names, key=lambda name: len({one[name] for one in sizes.values()}))
    others = [name for name in names if name != longest]
    fixed = {name: Counter(one[name] for one in sizes.values()).most_common(1)[0][0] for name in others}
    line = {
        size: one[longest]
        for size, one in sizes.items()
        if all(one[name] == value for name, value in fixed.items())
    }
    if 2 * len(line) >= len(sizes):
        return ", ".join([longest, *(f"{name}={value}" for name, value in fixed.items())]), line
    return " x ".join(names), {size: prod(one.values()) for size, one in sizes.items()}


def _plot(network: str, rows: Sequence[Mapping[str, Any]], relative: bool) -> Plot:
    title, places = axis_of(rows)
    latencies = claimed(rows)
    with canvas(HALF, 3.9) as figure:
        axes = figure.subplots()
        for engine in ENGINES:
            points = sorted(
                (places[size], known[engine] / (known[FORETUNE] if relative else 1e-3))
                for size, known in latencies.items()
                if size in places and engine in known and (not relative or FORETUNE in known)
            )
            if points:
                colour, line, marker = STYLES[engine]
                label = name_of("engine", engine)
                axes.plot(
                    *zip(*points, strict=True), color=colour, linestyle=line, marker=marker, label=label
                )
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.grid(axis="y")
        axes.set_xlabel(title)
        unit = "latency relative to the dynamic library" if relative else "latency in ms"
        axes.set_ylabel(unit)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0, fontsize=10)
        caption = (
            f"{name_of('dynamic_network', network)}: {unit}, over {title}; disturbed timings are left out."
        )
        return Plot(
            f"{name_of('dynamic_network', network)}{', relative' if relative else ''}",
            caption,
            (fragment(figure, f"{network}-{'relative' if relative else 'latency'}", caption),),
        )
