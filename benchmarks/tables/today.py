"""Short table of the README."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..common import geometric_mean, geometric_spread
from . import networks, rivals, stock
from .reading import Result, Results, duration, joined, markdown, times, times_spread


def today(results: Results) -> str:
    """Networks beside PyTorch eager and tasks beside stock, on the first machine of each; all rivals."""
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
    rows += [_beside_rivals(result) for result in results.of("rivals", "")]
    curves = results.of("tuning_curves", "")[0]
    found = [stock.beside(name, row) for name, row in stock.in_order(curves)]
    told = stock.groups(found)
    plain = told.get("all but the softmax", told["all"])
    of_networks = told.get("of networks", [])
    labels = {
        "the largest task of each of the three": of_networks,
        f"these and {len(plain) - len(of_networks)} operators": plain,
    }
    for label, group in labels.items():
        if group:
            ahead = times_spread(geometric_spread([one.cold for one in group]))
            rows.append([label, _less_time(group), f"{ahead} stock MetaSchedule", curves.path])
    mean = geometric_mean([networks.speed(each).middle for _, each in runs])
    note = (
        f"{tuned.machine}, {tuned.search}, {tuned.date}. Networks: medians of "
        f"{networks.number_of_runs([tuned])} from an empty database; {times(mean)} by the "
        "geometric mean. Tasks: geometric means of "
        f"medians of {joined(sorted({str(one.runs) for one in found}))} runs, against one run of stock with "
        f"{stock.trials(found)} trials, timed with cold caches; its time ends within {stock.NEAR - 1:.0%} of "
        f"its last program, in brackets after all. {_warm(results)} Settings were chosen on these networks "
        "and operators."
    )
    return markdown(["what", "tuning takes", "speed of the result", "`benchmarks/results/`"], rows, note)


def _beside_rivals(result: Result) -> list[str]:
    named = rivals.by_network(result)
    ahead = geometric_spread([best[1] for rows in named.values() if (best := rivals.best_rival(rows))])
    ready = [rows[rivals.FORETUNE]["ready_s"] for rows in named.values()]
    speed = f"{times_spread(ahead)} the best rival"
    return [
        f"{len(named)} networks, {result.machine}",
        duration(statistics.median(ready)),
        speed,
        result.path,
    ]


def _less_time(found: Sequence[stock.Beside]) -> str:
    near, whole = (
        geometric_mean([getattr(one, name) for one in found]) for name in ("less_time_near", "less_time")
    )
    return f"1/{near:.0f} of stock's time to {stock.NEAR - 1:.0%} (1/{whole:.0f} of all)"


def _warm(results: Results) -> str:
    """Sentence on the machines whose tasks were timed with warm caches, too."""
    found = []
    for result in results.of("tuning_curves"):
        every = [stock.beside(name, row).warm for name, row in stock.in_order(result)]
        warm = [ratio for ratio in every if ratio is not None]
        if warm:
            found.append(geometric_mean(warm))
    if not found:
        return "No machine was timed with warm caches."
    return (
        f"With warm caches, as stock's runner times: {times(min(found))} to {times(max(found))}, on "
        f"{len(found)} machines."
    )
