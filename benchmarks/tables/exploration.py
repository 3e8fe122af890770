"""Table of explorers beside random and evolutionary search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..common import geometric_mean
from .contests import latency_over, seconds_over
from .networks import NETWORKS, Runs, in_order, place
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


STOCK = "stock"
"""MetaSchedule's own search in a result."""


def fasor(results: Results) -> str:
    """One row for each search and machine: latency and time of each network beside the default search."""
    table = _beside(results, "default", SEARCHES)
    if not table:
        return not_measured("python -m benchmarks.fasor")
    return markdown(
        *table,
        "Latency of the tuned network, and in brackets the time of search and measurement, over those of the "
        "default search; networks are timed side by side. All: geometric means over the networks. Programs: "
        "those measured, over those of the default search.",
    )


def fasor_stock(results: Results) -> str:
    """One row for each search and machine: speed and time of each network beside MetaSchedule's search."""
    table = _beside(results, STOCK, {"default": "default", **SEARCHES}, speed=True)
    if not table:
        return not_measured("python -m benchmarks.fasor --searches stock fasor_templates")
    return markdown(
        *table,
        "Speed of the tuned network, and in brackets the time of search and measurement, over those of "
        "MetaSchedule's own search, which measures 64 programs a task; networks are timed side by side. All: "
        "geometric means over the networks. Programs: those measured, over those of MetaSchedule's search.",
    )


def _beside(
    results: Results, base: str, searches: Mapping[str, str], *, speed: bool = False
) -> tuple[list[str], list[list[str]]] | None:
    """Heads and rows of searches beside `base`, None where it did not run; `speed` in place of latency."""
    found = [(result, ran) for result in results.of("fasor") if (ran := _with(result, base))]
    if not found:
        return None
    names = sorted({name for _, ran in found for name in ran}, key=place)
    rows = [
        [result.machine, title, *_cells(chosen, names, search, base, speed)]
        for result, ran in found
        for search, title in searches.items()
        if (chosen := {name: runs for name, each in ran.items() if (runs := _of(search, each))})
    ]
    return ["machine", "search", *(NETWORKS.get(name, name) for name in names), "all", "programs"], rows


def _with(result: Result, search: str) -> dict[str, Runs]:
    """Runs of the contests that a search took part in, by network."""
    return {name: runs for name, each in in_order(result) if (runs := _of(search, each))}


def _of(search: str, runs: Runs) -> Runs:
    return [run for run in runs if search in run]


def _cells(
    chosen: Mapping[str, Runs], names: Sequence[str], search: str, base: str, speed: bool
) -> list[str]:
    """Cells of a search by network, of all, and of its programs."""
    power = -1 if speed else 1
    ratios = {
        name: (latency_over(runs, search, base).middle ** power, seconds_over(runs, search, base).middle)
        for name, runs in chosen.items()
    }
    every = [geometric_mean(each) for each in zip(*ratios.values(), strict=True)]
    programs, others = (
        sum(run[one]["measured"] for runs in chosen.values() for run in runs) for one in (search, base)
    )
    cells = [_cell(*ratios[name]) if name in ratios else "-" for name in names]
    return [*cells, _cell(*every), times(programs / others)]


def _cell(latency: float, seconds: float) -> str:
    return f"{times(latency)} ({times(seconds)})"
