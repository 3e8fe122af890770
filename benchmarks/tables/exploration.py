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
    "fasor": "Fasor as published",
    "fasor_templates": "`fasor`: with the most promising template where one fits",
    "fasor_high_quality": "Fasor's high quality as published",
    "high_quality_templates": "`fasor_high_quality`: with the default's templates, reuse and end",
    "pretuned": "default with pretuned starts",
    "sub_space_6": "default in a sub-space of 6 primitives",
    "dqn": "default with the deep Q-network",
    "high_efficiency": "`high_efficiency`",
}
"""Searches beside the default one, by their name in a result."""


EXCHANGED = {
    "without_pretuned": "without pretuned starts",
    "random": "random programs in place of the deep Q-network's",
    "evolutionary": "evolution in place of the deep Q-network",
}
"""Searches that are Fasor's as published with a part exchanged (Figure 8), by their name in a result."""


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
        "default search; networks are timed side by side. All: geometric means over so many networks. "
        "Programs: those measured, over those of the default search.",
    )


def fasor_parts(results: Results) -> str:
    """One row for each part exchanged and machine: latency and time beside Fasor's search as published."""
    table = _beside(results, "fasor", EXCHANGED, programs=False)
    if not table:
        return not_measured("python -m benchmarks.fasor")
    return markdown(
        *table,
        "Latency of the tuned network, and in brackets the time of search, over those of Fasor's search as "
        "published in the same contest. All: geometric means over so many networks.",
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
        "geometric means over so many networks. Programs: those measured, over those of MetaSchedule's.",
    )


def _beside(
    results: Results, base: str, searches: Mapping[str, str], *, speed: bool = False, programs: bool = True
) -> tuple[list[str], list[list[str]]] | None:
    """Heads and rows of searches beside `base`, None where none ran; `speed` in place of latency."""
    contests = [
        (result.machine, search, chosen)
        for result in results.of("fasor")
        for search in searches
        if (chosen := _with((search, base), result))
    ]
    if not contests:
        return None
    names = sorted({name for *_, chosen in contests for name in chosen}, key=place)
    rows = [
        [machine, searches[search], *_cells(chosen, names, search, base, speed)]
        + ([_programs(chosen, search, base)] if programs else [])
        for machine, search, chosen in contests
    ]
    heads = ["machine", "search", *(NETWORKS.get(name, name) for name in names), "all"]
    return [*heads, *(["programs"] if programs else [])], rows


def _with(searches: Sequence[str], result: Result) -> dict[str, Runs]:
    """Contests that all of the searches took part in, by network."""
    return {
        name: runs
        for name, each in in_order(result)
        if (runs := [run for run in each if all(search in run for search in searches)])
    }


def _cells(
    chosen: Mapping[str, Runs], names: Sequence[str], search: str, base: str, speed: bool
) -> list[str]:
    """Cells of a search by network, and of all with their number."""
    power = -1 if speed else 1
    ratios = {
        name: (latency_over(runs, search, base).middle ** power, seconds_over(runs, search, base).middle)
        for name, runs in chosen.items()
    }
    latency, seconds = (geometric_mean(each) for each in zip(*ratios.values(), strict=True))
    cells = [_cell(*ratios[name]) if name in ratios else "-" for name in names]
    return [*cells, f"{_cell(latency, seconds)} of {len(ratios)}"]


def _programs(chosen: Mapping[str, Runs], search: str, base: str) -> str:
    """Programs that a search measures over those of `base`."""
    counts = [sum(run[one]["measured"] for runs in chosen.values() for run in runs) for one in (search, base)]
    return times(counts[0] / counts[1])


def _cell(latency: float, seconds: float) -> str:
    return f"{times(latency)} ({times(seconds)})"
