"""Table of searches that begin with pretuned schedules, beside the same searches without them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common import geometric_mean
from .reading import Results, markdown, not_measured, times

PAIRS = {
    ("pretuned", "default"): "four starts, from a similarity of 0.6 on",
    ("two pretuned", "default"): "two starts, from 0.6 on",
    ("nearly the same", "default"): "four starts, from 0.9 on",
    ("pretuned, without templates", "without templates"): "four starts, from 0.6 on, both without templates",
}
"""Search with pretuned starts and the same without them -> its name in the table."""


def pretuned(results: Results) -> str:
    """One row for each machine and pair of searches."""
    found = results.of("pretuned")
    if not found:
        return not_measured("python -m benchmarks.pretuned")
    rows = [
        row
        for result in found
        for row in _rows(result.machine, result.values, "other tasks" if result.manifest["variant"] else "")
    ]
    first = found[-1].values["first_round"]
    heads = ["machine", "search", "tasks", "programs until then", f"within {first // 2}"]
    return markdown(
        [*heads, f"best of {first // 2}", f"best of {first}", "best of all", "time"],
        rows,
        "Programs until then: median of the measured programs with which a search with pretuned starts is as "
        f"fast as the same search without them after its first round of {first}; within {first // 2}: tasks "
        f"on which half of that round is enough. Best of {first // 2} and of {first}: its latency then over "
        f"that of the other search after {first}; best of all and time: over those of the other search at "
        "its end. Geometric means, one run each. The cost model was not trained on the tasks; the schedules "
        "are of tasks of other shapes.",
    )


def _rows(machine: str, values: Mapping[str, Any], tasks: str) -> Iterator[list[str]]:
    first = values["first_round"]
    for (ours, theirs), pair in PAIRS.items():
        title = "; ".join(filter(None, (pair, tasks)))
        if not all({ours, theirs} <= row["runs"].keys() for row in values["tasks"]):
            continue
        runs = [(row["runs"][ours], row["runs"][theirs]) for row in values["tasks"]]
        runs = [both for both in runs if all(run["latencies_s"] for run in both)]
        if not runs:
            continue
        ran = [(mine["latencies_s"], other["latencies_s"]) for mine, other in runs]
        counts = [programs_until(mine, min(other[:first])) for mine, other in ran]
        half = sum(count <= first // 2 for count in counts)
        seconds = geometric_mean([mine["seconds"] / other["seconds"] for mine, other in runs])
        yield [
            *(machine, title, str(len(ran)), f"{statistics.median(counts):g}", f"{half} of {len(ran)}"),
            *(times(_over(ran, mine, first)) for mine in (first // 2, first)),
            *(times(_over(ran, None, None)), times(seconds)),
        ]


def programs_until(latencies_s: Sequence[float], goal_s: float) -> float:
    """Number of programs until one is as fast as a goal; infinite where none is."""
    return next((n for n, latency_s in enumerate(latencies_s, 1) if latency_s <= goal_s), float("inf"))


def _over(ran: Sequence[tuple[Sequence[float], ...]], mine: int | None, theirs: int | None) -> float:
    """Mean ratio of the best of so many programs of the first search and of the second."""
    return geometric_mean([min(ours[:mine]) / min(others[:theirs]) for ours, others in ran])
