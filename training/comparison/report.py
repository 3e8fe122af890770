"""Page of a comparison: one self-contained HTML file."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from string import Template

from ...models.metrics import task_metrics as metrics_module
from ...page import Fact, fact_html, figure_html, page_html, table_html
from .plots import plots
from .result import LOWER_IS_BETTER, MEASURES, ModelComparison

TITLES = {
    "rmse": "RMSE",
    "r2": "R2",
    "log_r2": "log R2",
    "spearman": "Spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "top_10": "top-10",
    "top_1_sums": "top-1 sums",
    "top_5_sums": "top-5 sums",
    "top_10_sums": "top-10 sums",
    "peak_5": "peak@5",
    "peak_10": "peak@10",
    "recall_5": "recall@5",
    "recall_10": "recall@10",
    "regret_1": "regret@1",
    "regret_5": "regret@5",
}

_MARGINS = ("spearman", "pairwise_accuracy", "top_1", "top_5", "peak_10", "recall_10", "regret_5")

_CONTENT = Template(
    """<dl class="facts">
$facts
</dl>
$sections
<div class="plots" style="margin-top: 16px">
$plots
</div>
<section class="card">
<h2>Metrics</h2>
<pre style="white-space: pre-wrap; font-size: 13px">$method</pre>
</section>
"""
)


def write_report(comparison: ModelComparison, path: Path, baseline: str) -> None:
    """Writes the page of a comparison; margins are against `baseline`."""
    data = comparison.data
    content = _CONTENT.substitute(
        facts="\n".join(map(fact_html, _facts(comparison, baseline))),
        sections="\n".join(_sections(comparison, baseline)),
        plots="\n".join(map(figure_html, plots(comparison))),
        method=escape((metrics_module.__doc__ or "").strip()),
    )
    page = page_html(
        comparison.title,
        f"{data['tasks']['train']} training, {data['tasks']['validation']} validation and "
        f"{data['tasks']['test']} test tasks with no task in common | data {data['sha256'][:12]} | "
        f"devices {', '.join(data['hardware_ids'])}",
        content,
    )
    path.write_text(page, encoding="utf-8")


def _facts(comparison: ModelComparison, baseline: str) -> list[Fact]:
    rows = {row.name: row for row in comparison.rows()}
    facts = []
    margins = comparison.margins(baseline)
    for measure, title in (
        ("spearman", "Spearman"),
        ("pairwise_accuracy", "Pairs"),
        ("top_1", "Top-1 score"),
    ):
        best = max(rows.values(), key=lambda row: row.means[measure])
        detail = f"by {best.name}"
        good = None
        if best.name in margins:
            margin = margins[best.name][measure]
            detail += f"; {margin.ahead:+.3f} against {baseline} ({_interval(margin.low, margin.high)})"
            good = margin.low > 0 or None
        facts.append(Fact(f"Best {title}", f"{best.means[measure]:.3f}", detail, good))
    data = comparison.data
    detail = f"of {data['tasks']['test']} tasks"
    if "test_dataset" in data:
        detail += f" of {data['test_dataset']}; {data['common_tasks']} more are left out, of trained shapes"
    if left_out := data.get("left_out"):
        facts.append(Fact("Left out", f"{len(left_out)}", f"no time for {', '.join(left_out)}", good=False))
    facts.append(Fact("Test records", f"{data['records']['test']:,}", detail))
    return facts


def _interval(low: float, high: float) -> str:
    return "no interval" if math.isnan(low) else f"95%: {low:+.3f} to {high:+.3f}"


def _sections(comparison: ModelComparison, baseline: str) -> list[str]:
    rows = comparison.rows()
    cells = []
    for row in rows:
        latency = f"{row.facts['latency_r2']:.3f}" if "latency_r2" in row.facts else ""
        took = f"{row.facts['seconds']:,.0f}" if "seconds" in row.facts else ""
        figures = [
            f"{row.means[m]:.3f}" + (f" ±{row.deviations[m]:.3f}" if row.seeds > 1 else "") for m in MEASURES
        ]
        cells.append([row.name, *figures, latency, took])
    lower = ", ".join(TITLES[measure] for measure in MEASURES if measure in LOWER_IS_BETTER)
    sections = [
        table_html(
            ["model", *(TITLES[measure] for measure in MEASURES), "latency R2", "seconds"],
            cells,
            f"Means over the test tasks; lower is better for {lower}. Latency R2 is that of the logarithms "
            "of latencies over all tasks, for models that predict seconds. Seconds are the training time.",
            "All metrics",
        )
    ]
    margins = comparison.margins(baseline)
    if margins:
        sections.append(
            table_html(
                ["model", *(TITLES[measure] for measure in _MARGINS)],
                [
                    [name, *(f"{of[m].ahead:+.3f} ({_ends(of[m].low, of[m].high)})" for m in _MARGINS)]
                    for name, of in margins.items()
                ],
                "Difference of the means over the test tasks, positive if better, with a 95% bootstrap "
                "interval over the tasks.",
                f"Margin against {baseline}",
            )
        )
    networks = [
        [
            name,
            network["network"],
            f"{network['tasks']:.0f}",
            f"{network['share']:.0%}",
            *(f"{network[f'top_{k}{kind}']:.3f}" for kind in ("", "_sums") for k in (1, 5, 10)),
        ]
        for name in comparison.names()
        for network in comparison.by_network(name)
    ]
    if networks:
        sections.append(
            table_html(
                ["model", "network", "tasks", "share"]
                + [f"top-{k}{kind}" for kind in ("", " sums") for k in (1, 5, 10)],
                networks,
                "Tasks are weighted by their calls; share is the part of the calls that has records.",
                "Networks",
            )
        )
    return sections


def _ends(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"{low:+.2f}, {high:+.2f}"
