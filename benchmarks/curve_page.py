"""The page of benchmarks/tuning_curves.py: latency against time for each task, and the ratios to stock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretune.figures import AFTER, BAD, BEFORE, MUTED, PEER, canvas, fragment, log_axis, significant
from foretune.page import Fact, Plot, fact_html, figure_html, page_html, table_html, target_words

TUNERS = {
    "foretune": ("foretune", AFTER, "-"),
    "foretune_longer": ("foretune, twelve rounds", AFTER, ":"),
    "evolution": ("foretune without the draft model", PEER, "-"),
    "stock": ("stock MetaSchedule", BEFORE, "-"),
    "stock_measured_by_foretune": ("stock, measured by foretune", BEFORE, ":"),
    "random": ("random programs, measured by foretune", BAD, ":"),
}
"""What each tuner is called, and how its lines look."""

SLOWEST_DRAWN = 6.0
"""Where the axis ends, as a multiple of what stock ends with: a first program may be hundreds of times
slower, and drawn in full would leave no room for what tells the ends apart."""


def stock_of(row: dict[str, Any]) -> str:
    """What the other tuners of a row are compared with: stock, or its search as foretune measures it."""
    return "stock" if "stock" in row["tuners"] else "stock_measured_by_foretune"


def write_page(rows: Sequence[dict[str, Any]], summary: dict[str, Any], path: Path) -> None:
    """Writes the rows of the benchmark as a page that needs no other file."""
    facts = [fact for name, of in summary.items() for fact in _facts(name, of)]
    plots = "\n".join(figure_html(_curves(row)) for row in rows)
    body = f'<dl class="facts">{"".join(map(fact_html, facts))}</dl>\n<div class="plots">\n{plots}\n</div>\n'
    body += _table(summary) if summary else ""
    machines = ", ".join(sorted({row["machine"] for row in rows}))
    trials = " and ".join(f"{count:,}" for count in sorted({row["trials"] for row in rows}))
    caches = " and ".join(sorted({row["caches"] for row in rows}))
    stock = " and ".join(sorted({TUNERS[stock_of(row)][0] for row in rows}))
    target = target_words(rows[0]["target"])
    subtitle = f"{machines} | {target} | {stock}, with {trials} trials a task | caches {caches}"
    path.write_text(page_html("Latency against tuning time", subtitle, body), encoding="utf-8")


def _facts(name: str, of: dict[str, Any]) -> list[Fact]:
    label = TUNERS[name][0]
    tasks = f"geometric mean of {len(of['tasks'])} tasks"
    return [
        Fact(f"{label}: stock's time", f"{of['time_ratio']:.1f}x", tasks, of["time_ratio"] > 1),
        Fact(f"{label}: stock's latency", f"{of['latency_ratio']:.2f}x", tasks, of["latency_ratio"] >= 1),
    ]


def _curves(row: dict[str, Any]) -> Plot:
    """Steps of each run, from its first program that is timed to its end; of those at one time, the last."""
    stock_s = row["tuners"][stock_of(row)][0]["curve"][-1]["latency_s"]
    unit, factor = ("ms", 1e3) if stock_s > 1e-3 else ("µs", 1e6)
    with canvas(7.3, 4.4) as figure:
        axes = figure.subplots()
        for name, runs in row["tuners"].items():
            label, colour, style = TUNERS[name]
            for run in (run for run in runs if run["curve"]):
                held = {round(step["at_s"], 1): factor * step["latency_s"] for step in run["curve"]}
                at_s, latency = [*held, run["seconds"]], [*held.values()]
                axes.step(
                    *(at_s, [*latency, latency[-1]]),
                    where="post", color=colour, linestyle=style, label=label,
                )  # fmt: skip
                axes.plot(at_s[-1], latency[-1], "o", color=colour)
                label = None  # one entry of the legend for all runs
        axes.set_yscale("log")
        axes.set_ylim(top=min(axes.get_ylim()[1], SLOWEST_DRAWN * factor * stock_s))
        for which in ("x", "y"):
            log_axis(axes, which)
        axes.grid(axis="both")
        axes.set_xlabel("seconds since the start")
        axes.set_ylabel(f"latency, {unit}")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0, fontsize=10)
        axes.axhline(factor * stock_s, color=MUTED, linewidth=0.8)
        caption = (
            f"{row['task']}, {significant(row['gflop'])} GFLOP, stock with {row['trials']:,} trials. "
            "A line is the program that a tuner held for the best. All are timed in turns at the end, so "
            "that a step can be smaller than its tuner took it for, or lead up. A dot is the end of a run, "
            "the thin line where stock ends."
        )
        return Plot(row["name"], caption, fragment(figure, row["name"], caption))


def _table(summary: dict[str, Any]) -> str:
    heads = (
        *("tuner", "task", "runs", "stock's time", "stock's latency"),
        *("runs that reach it", "stock's time to reach it"),
    )
    body = []
    for name, of in summary.items():
        for task, ratios in of["tasks"].items():
            reached = ratios["time_ratio_to_reach_stock"]
            cells = (
                *(TUNERS[name][0], task, str(ratios["runs"]), f"{ratios['time_ratio']:.1f}x"),
                *(f"{ratios['latency_ratio']:.2f}x", str(ratios["runs_that_reach_stock"])),
                "-" if reached is None else f"{reached:.1f}x",
            )
            body.append(cells)
        for network, ratios in of["networks"].items():
            what = f"{network}: {ratios['tasks']} tasks by calls"
            times = (f"{ratios['time_ratio']:.1f}x", f"{ratios['latency_ratio']:.2f}x")
            body.append((TUNERS[name][0], what, "", *times, "", ""))
    note = (
        "Multiples of the tuner's own by medians of its runs: above 1 the tuner is ahead. To reach stock's "
        "latency: all of stock's time over the median time to a program as fast as stock's last. "
        "Of a network: sums over its tasks, latencies as often as it calls them."
    )
    return table_html(heads, body, note)
