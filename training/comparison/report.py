"""Page of a comparison: one self-contained HTML file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ...files import write_whole
from ...models.metrics import task_metrics as metrics_module
from ...models.metrics.margins import LEAST_TASKS, Margin
from ...page import Fact, Facts, Page, Plots, Table, Text, columns, to_html
from ...wording import MISSING, counted, decimal, listed, verb
from .plots import plots
from .result import LOWER_IS_BETTER, MEASURES, ModelComparison, Standing

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


def write_report(comparison: ModelComparison, path: Path, baseline: str) -> None:
    """Writes the page of a comparison; margins are against `baseline`."""
    write_whole(path, to_html(comparison_page(comparison, baseline)))


def comparison_page(comparison: ModelComparison, baseline: str) -> Page:
    """The whole page."""
    data = comparison.data
    tasks = data["tasks"]
    return Page(
        comparison.title,
        f"{tasks['train']:,} training, {tasks['validation']:,} validation and "
        f"{counted(tasks['test'], 'test task')} with no task in common | data {data['sha256'][:12]} | "
        f"devices {', '.join(data['hardware_ids'])}",
        [
            Facts(_facts(comparison, baseline), headline=True),
            Plots(plots(comparison)),
            _metrics(comparison),
            _margins(comparison, baseline),
            _networks(comparison),
            Text("Metrics", verbatim=(metrics_module.__doc__ or "").strip()),
        ],
    )


def _facts(comparison: ModelComparison, baseline: str) -> list[Fact]:
    facts = []
    margins = comparison.margins(baseline)
    for measure, title in (
        ("spearman", "Spearman"),
        ("pairwise_accuracy", "Pairs"),
        ("top_1", "Top-1 score"),
    ):
        standing = comparison.standing(measure)
        if standing is None:
            continue
        if not standing.clear:
            facts.append(Fact(f"Best {title}", "no clear winner", _level(standing)))
            continue
        detail = f"by {standing.best}"
        good = None
        if standing.best in margins:
            margin = margins[standing.best][measure]
            detail += f"; {margin.ahead:+.3f} against {baseline} ({_interval(margin.low, margin.high)})"
            good = margin.clear or None
        facts.append(Fact(f"Best {title}", f"{standing.mean:.3f}", detail, good))
    data = comparison.data
    detail = f"of {counted(data['tasks']['test'], 'task')}"
    if "test_dataset" in data:
        more = data["common_tasks"]
        detail += f" of {data['test_dataset']}; {more:,} more {verb(more, 'is', 'are')} left out, since "
        detail += "the training dataset has their shapes"
    if left_out := data.get("left_out"):
        facts.append(Fact("Left out", f"{len(left_out)}", f"no time for {', '.join(left_out)}", good=False))
    facts.append(Fact("Test records", f"{data['records']['test']:,}", detail))
    return facts


def _level(standing: Standing) -> str:
    """The reason why a standing has no winner."""
    tasks = counted(standing.tasks, "task")
    if standing.tasks < LEAST_TASKS:
        return f"{tasks} {verb(standing.tasks, 'is', 'are')} too few to decide; it takes {LEAST_TASKS}"
    return f"{standing.best} has {standing.mean:.3f}, but {listed(standing.level)} may be as good on {tasks}"


def undecided(comparison: ModelComparison, measures: Mapping[str, str]) -> list[str]:
    """A sentence if some of the metrics, given with their titles, have no clear winner."""
    found = {title: comparison.standing(measure) for measure, title in measures.items()}
    open_ = {title: one for title, one in found.items() if one is not None and not one.clear}
    if not open_:
        return []
    tasks = max(one.tasks for one in open_.values())
    on = counted(tasks, "held-out task")
    if tasks < LEAST_TASKS:
        reason = f"{on} {verb(tasks, 'is', 'are')} too few to decide, and it takes {LEAST_TASKS}"
    else:
        reason = f"the differences on {on} may be chance"
    return [
        f"No model is clearly the best by {listed(list(open_))}: {reason}. To decide, raise split.test or "
        "generate more tasks."
    ]


def _interval(low: float, high: float) -> str:
    return "no interval" if math.isnan(low) else f"95%: {low:+.3f} to {high:+.3f}"


def _metrics(comparison: ModelComparison) -> Table:
    """A row for each metric, since there are more of them than models."""
    of = comparison.rows()
    rows = [
        [TITLES[measure], *(_with_deviation(row.means[measure], row.deviations[measure]) for row in of)]
        for measure in MEASURES
    ]
    for title, fact in (("latency R2", "latency_r2"), ("latency R2 of the tasks' means", "task_latency_r2")):
        rows.append([title, *(_known(row.facts.get(fact), ".3f") for row in of)])
    rows.append(["seconds", *(_known(row.facts.get("seconds"), ",.0f") for row in of)])
    lower = listed([TITLES[measure] for measure in MEASURES if measure in LOWER_IS_BETTER])
    return Table(
        "All metrics",
        columns("metric", *(row.name for row in of)),
        rows,
        f"Means over the test tasks; lower is better for {lower}. Latency R2 is that of the logarithms of "
        "latencies over all tasks, for models that predict seconds. Seconds are the training time.",
    )


def _with_deviation(mean: float, deviation: float) -> str:
    return decimal(mean) if math.isnan(deviation) else f"{decimal(mean)} ±{decimal(deviation)}"


def _known(value: float | None, form: str) -> str:
    return MISSING if value is None else f"{value:{form}}"


def _margins(comparison: ModelComparison, baseline: str) -> Table:
    of = comparison.margins(baseline)
    rows = [[TITLES[m], *(_margin(one[m]) for one in of.values())] for m in _MARGINS if of]
    return Table(
        f"Margin against {baseline}",
        columns("metric", *of),
        rows,
        "Difference of the means over the test tasks, positive if better, with a 95% bootstrap interval over "
        f"the tasks. A difference is clear if the interval excludes 0 and there are {LEAST_TASKS} tasks or "
        "more.",
    )


def _networks(comparison: ModelComparison) -> Table:
    rows = [
        [
            name,
            network["network"],
            f"{network['tasks']:.0f}",
            f"{network['share']:.0%}",
            *(decimal(network[f"top_{k}{kind}"]) for kind in ("", "_sums") for k in (1, 5, 10)),
        ]
        for name in comparison.names()
        for network in comparison.by_network(name)
    ]
    scores = [f"top-{k}{kind}" for kind in ("", " sums") for k in (1, 5, 10)]
    return Table(
        "Networks",
        columns("model", "network", "tasks", "share", *scores, text=("network",)),
        rows,
        "Tasks are weighted by their calls; share is the part of the calls that has records.",
    )


def _margin(margin: Margin) -> str:
    if math.isnan(margin.ahead):
        return MISSING
    ends = MISSING if math.isnan(margin.low) else f"{margin.low:+.2f}, {margin.high:+.2f}"
    return f"{margin.ahead:+.3f} ({ends})"
