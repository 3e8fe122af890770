"""Short table of the README."""

from __future__ import annotations

from collections.abc import Sequence

from ..common import Spread, geometric_mean, geometric_spread
from . import networks, stock
from .reading import Results, duration, joined, markdown, times, times_spread


def today(results: Results) -> str:
    """Networks beside PyTorch eager and tasks beside stock, on the first machine of the tables."""
    tuned = results.of("networks_headline")[0]
    runs = networks.in_order(tuned)
    rows = [
        [
            networks.NETWORKS.get(name, name),
            duration(networks.seconds(each).middle),
            f"{times_spread(networks.speed(each))} PyTorch eager",
            tuned.path,
        ]
        for name, each in runs
    ]
    curves = results.of("tuning_curves", "")[0]
    found = [stock.beside(name, row) for name, row in stock.in_order(curves)]
    told = stock.groups(found)
    labels = {
        "of networks": "the largest task of each of the three",
        "all": f"{len(found)} tasks: these and {len(told['operators'])} operators",
        "all but the softmax": "the same without the softmax",
    }
    for group, label in labels.items():
        if group in told:
            rows.append(
                [
                    label,
                    f"1/{geometric_mean([one.less_time for one in told[group]]):.0f} of stock's time",
                    f"{times_spread(geometric_spread([one.cold for one in told[group]]))} stock MetaSchedule",
                    curves.path,
                ]
            )
    mean = geometric_mean([networks.speed(each).middle for _, each in runs])
    note = (
        f"{tuned.machine}, {tuned.search}, {tuned.date}. Networks: medians of "
        f"{networks.number_of_runs([tuned])} from an empty database, from start to report, least and "
        f"most of the speed in brackets; {times(mean)} by the geometric mean. Tasks: geometric means of "
        f"medians of {joined(sorted({str(one.runs) for one in found}))} runs, against one run of stock with "
        f"{stock.trials(found)} trials, timed with cold caches. {_warm(results)} Settings of the search were "
        "chosen on tasks of these three networks and on these operators."
    )
    return markdown(["what", "tuning takes", "speed of the result", "`benchmarks/results/`"], rows, note)


def _warm(results: Results) -> str:
    """Sentence on the machines whose tasks were timed with warm caches, too."""
    found: list[tuple[str, Spread, Spread]] = []
    for result in results.of("tuning_curves"):
        every = [stock.beside(name, row) for name, row in stock.in_order(result)]
        both = [one for one in every if one.warm is not None]
        if both:
            name = result.machine + (", earlier search" if result.manifest["variant"] else "")
            warm = geometric_spread([one.warm for one in both if one.warm is not None])
            found.append((name, geometric_spread([one.cold for one in both]), warm))
    if not found:
        return "No machine was timed with warm caches."
    return f"With warm caches, as stock's runner times: {_listed(found)}."


def _listed(found: Sequence[tuple[str, Spread, Spread]]) -> str:
    return "; ".join(
        f"{times(warm.middle)} in place of {times(cold.middle)} ({name})" for name, cold, warm in found
    )
