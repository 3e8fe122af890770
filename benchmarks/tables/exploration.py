"""Table of explorers beside random and evolutionary search."""

from __future__ import annotations

from ..common import geometric_mean
from .networks import NETWORKS, Runs, in_order
from .reading import Result, Results, markdown, not_measured, times

METHODS = {
    "random": "random programs",
    "evolutionary": "evolution",
    "random_moves": "random moves from the best",
    "dqn, high_efficiency": "deep Q-network, high-efficiency",
    "dqn, high_quality": "deep Q-network, high-quality",
}
PARTS = {"test": "unseen tasks", "unseen_operators": "unseen operators"}
MEASURES = {
    "score": "environment's score",
    "judged": "cost model's score",
    "recorded": "recorded latencies",
}


def methods(results: Results) -> str:
    """One row for each search, with the means of each part and measure."""
    found = results.of("explorer")
    if not found:
        return not_measured("python -m benchmarks.explorer")
    result = found[-1]
    means = result.values["means"]
    columns = [(part, measure) for part in PARTS for measure in MEASURES]
    rows = []
    for method, title in METHODS.items():
        values = [means[part][measure].get(method) for part, measure in columns]
        rows.append([title, *("-" if value is None else f"{value:.3f}" for value in values)])
    counts = "; ".join(
        f"{PARTS[part]}: {', '.join(str(means[part][measure]['sketches']) for measure in MEASURES)} sketches"
        for part in PARTS
    )
    heads = [f"{PARTS[part]}: {MEASURES[measure]}" for part, measure in columns]
    return markdown(
        ["search", *heads],
        rows,
        f"Means over sketches, with {result.values['candidates']} rated programs each: the best score by the "
        "environment, and the cost model's score of that program. Recorded latencies: the fastest of a "
        f"sketch over the fastest of the {result.values['recorded']} programs of a walk. {counts}.",
    )


SEARCHES = {
    "fasor": "`fasor`",
    "fasor_templates": "`fasor`, where a template fits its most promising one",
    "without_pretuned": "`fasor` without pretuned starts",
    "random": "`fasor`, random in place of the deep Q-network",
    "evolutionary": "`fasor`, evolution in place of the deep Q-network",
    "fasor_high_quality": "`fasor_high_quality`",
    "high_quality_templates": "`fasor_high_quality` with the default's templates, reuse and end",
    "pretuned": "default with pretuned starts",
    "sub_space_6": "default in a sub-space of 6 primitives",
    "dqn": "default with the deep Q-network",
    "high_efficiency": "`high_efficiency`",
}
"""Searches beside the default one, by their name in a result."""


def fasor(results: Results) -> str:
    """One row for each search and machine: latency and time of each network beside the default search."""
    found = results.of("fasor")
    if not found:
        return not_measured("python -m benchmarks.fasor")
    names = list(dict.fromkeys(name for result in found for name, _ in in_order(result)))
    rows = [
        [result.machine, title, *cells]
        for result in found
        for search, title in SEARCHES.items()
        if (cells := _cells(result, search, names))
    ]
    heads = ["machine", "search", *(NETWORKS.get(name, name) for name in names), "all", "programs"]
    return markdown(
        heads,
        rows,
        "Latency of the tuned network, and in brackets the time of search and measurement, over those of the "
        "default search; networks are timed side by side. All: geometric means over the networks. Programs: "
        "those measured, over those of the default search.",
    )


def _cells(result: Result, search: str, names: list[str]) -> list[str]:
    """Cells of a search by network, of all, and of its programs; empty where it did not run."""
    runs = {name: ran for name, every in in_order(result) if (ran := [run for run in every if search in run])}
    if not runs:
        return []
    ratios = {name: (_latency(ran, search), _seconds(ran, search)) for name, ran in runs.items()}
    every = [geometric_mean(each) for each in zip(*ratios.values(), strict=True)]
    programs, default = (
        sum(run[one]["measured"] for ran in runs.values() for run in ran) for one in (search, "default")
    )
    cells = [_cell(*ratios[name]) if name in ratios else "-" for name in names]
    return [*cells, _cell(*every), times(programs / default)]


def _cell(latency: float, seconds: float) -> str:
    return f"{times(latency)} ({times(seconds)})"


def _latency(runs: Runs, search: str) -> float:
    timed = [run["side_by_side_s"] for run in runs]
    return geometric_mean([one[search] / one["default"] for one in timed])


def _seconds(runs: Runs, search: str) -> float:
    return geometric_mean([run[search]["search_s"] / run["default"]["search_s"] for run in runs])
