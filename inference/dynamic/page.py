"""The page of a run with dynamic shapes: `report.html`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...figures import AFTER, BEFORE, HALF, canvas, fragment, log_axis
from ...files import write_whole
from ...page import Fact, Facts, Page, Plot, Plots, Table, columns, to_html
from ...wording import counted, difference, duration, milliseconds, part_of, significant, target_words
from .families import families_table
from .result import DynamicResult, SizeResult

HTML = "report.html"
"""Name of the page in the folder of the report."""


def dynamic_page(result: DynamicResult) -> Page:
    """The whole page."""
    ranges = ", ".join(f"{name}={low}:{high}" for name, (low, high) in result.symbols.items())
    return Page(
        f"{result.network} for {ranges}",
        f"{target_words(result.target)} | {result.started_at}",
        [
            Facts(_headline(result), headline=True),
            Plots(_plots(result)),
            sizes_table(result),
            families_table(result.tasks),
            _settings(result),
        ],
        ""
        if result.sizes
        else "The library does not run here: its outputs are not compared with the original.",
    )


def write_page(result: DynamicResult, folder: Path) -> Path:
    """Writes the page and returns its path. Raises CannotWriteError."""
    path = folder / HTML
    write_whole(path, to_html(dynamic_page(result)), field="output")
    return path


def _headline(result: DynamicResult) -> list[Fact]:
    facts = []
    if result.sizes:
        worst = max(result.sizes, key=_share_of_tolerance)
        sizes, share = counted(len(result.sizes), "size"), 100 * _share_of_tolerance(worst)
        detail = f"at {sizes}; largest difference {share:.2g} % of the tolerance, at {worst}"
        facts.append(Fact("Outputs", "agree", detail, good=True))
    families = [task for task in result.tasks if task.get("tables")]
    plain = f"; {counted(len(result.plain), 'task')} with plain schedules" if result.plain else ""
    facts.append(
        Fact(
            "Kernels",
            str(sum(len(table["members"]) for task in families for table in task["tables"])),
            f"in families of {part_of(len(families), len(result.tasks), 'symbolic task')}{plain}",
            good=not result.plain or None,
        )
    )
    facts.append(Fact("Time taken", duration(result.total_s), f"exported to {result.exported or 'no file'}"))
    return facts


def _share_of_tolerance(one: SizeResult) -> float:
    return one.max_abs_difference / one.tolerance if one.tolerance else 0.0


def sizes_table(result: DynamicResult) -> Table:
    """A row for each compared size."""
    note = (
        "Outputs are compared with the original's. Latencies are medians of a few runs in this process, "
        "which other work on the machine disturbs."
    )
    beyond = any(one.beyond for one in result.sizes)
    if beyond:
        note += " Sizes beyond the ranges run plain schedules."
    rows = [
        [
            str(one),
            difference(one.max_abs_difference),
            difference(one.tolerance),
            significant(1e3 * one.median_s),
        ]
        for one in result.sizes
    ]
    return Table("Compared sizes", columns("Size", "Difference", "Tolerance", "Median ms"), rows, note)


def _plots(result: DynamicResult) -> list[Plot]:
    return [_latencies(result.sizes, name) for name in result.symbols if len(result.sizes) > 1]


def _latencies(sizes: Sequence[SizeResult], name: str) -> Plot:
    """Latency over one symbol; several points of one size differ in other symbols."""
    inside = sorted((one.sizes[name], 1e3 * one.median_s) for one in sizes if not one.beyond)
    outside = sorted((one.sizes[name], 1e3 * one.median_s) for one in sizes if one.beyond)
    with canvas(HALF, 3.4) as figure:
        axes = figure.subplots()
        if len(next(iter(sizes)).sizes) == 1:
            axes.plot(*zip(*inside, strict=True), color=AFTER, linewidth=1.6, zorder=1)
        for points, colour, label in ((inside, AFTER, "kernels"), (outside, BEFORE, "beyond the range")):
            x, y = [size for size, _ in points], [latency for _, latency in points]
            axes.scatter(x, y, s=36, color=colour, label=label, zorder=2)
        if outside:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.set_xlabel(f"{name} (log)")
        axes.set_ylabel("latency, ms (log)")
        least, most = (milliseconds(pick(latency for _, latency in inside) / 1e3) for pick in (min, max))
        caption = f"Median latency at each compared size of the range: {least} to {most}."
        if len(next(iter(sizes)).sizes) > 1:
            caption += " Points of one size differ in the other symbols."
        return Plot(f"Latency over {name}", caption, (fragment(figure, f"latency-{name}", caption),))


def _settings(result: DynamicResult) -> Table:
    rows = [[name, f"{seconds:.1f} s"] for name, seconds in result.stage_s.items()]
    rows += [[f"{name} version", version] for name, version in result.versions.items()]
    return Table("Stages and versions", columns("Name", "Value", text=("Value",)), rows, folded=True)
