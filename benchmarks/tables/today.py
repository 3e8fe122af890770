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
    rows += [_beside_rivals(result, "") for result in results.of("rivals", "")]
    rows += [_beside_rivals(result, " without own templates") for result in results.of("rivals", "untouched")]
    curves = results.of("tuning_curves", "")[0]
    found = [stock.beside(name, row) for name, row in stock.in_order(curves)]
    told = stock.groups(found)
    plain = told.get("all but the softmax", told["all"])
    ahead = times_spread(geometric_spread([one.cold for one in plain]))
    label = f"{len(plain)} tasks of the first three and of operators"
    rows.append([label, _less_time(plain), f"{ahead} stock MetaSchedule", curves.path])
    mean = geometric_mean([networks.speed(each).middle for _, each in runs])
    runs_of_tasks = joined(sorted({str(one.runs) for one in found}))
    trials = stock.trials(found)
    note = (
        f"Beside eager and stock: {tuned.machine}, {tuned.search}, {tuned.date}. Networks: medians of "
        f"{networks.number_of_runs([tuned])}, {times(mean)} by the geometric mean; beside rivals one run "
        f"each, the median network's time. Tasks: medians of {runs_of_tasks} runs against {trials} trials of "
        f"stock, cold caches ({_warm(results)}); stock's time is that {stock.TO_NEAR} of its last program, "
        "in brackets all. Settings were chosen on all but those without own templates."
    )
    return markdown(["what", "tuning takes", "speed of the result", "`benchmarks/results/`"], rows, note)


def _beside_rivals(result: Result, which: str) -> list[str]:
    named = rivals.by_network(result)
    ahead = geometric_spread([best[1] for rows in named.values() if (best := rivals.best_rival(rows))])
    ready = [rows[rivals.FORETUNE]["ready_s"] for rows in named.values()]
    label = f"{len(named)} networks{which}, {result.machine}"
    return [label, duration(statistics.median(ready)), f"{times_spread(ahead)} the best rival", result.path]


def _less_time(found: Sequence[stock.Beside]) -> str:
    near, whole = (
        geometric_mean([getattr(one, name) for one in found]) for name in ("less_time_near", "less_time")
    )
    return f"1/{near:.0f} of stock's time {stock.TO_NEAR} (1/{whole:.0f} of all)"


def _warm(results: Results) -> str:
    """Words on the machines whose tasks were timed with warm caches, too."""
    found = []
    for result in results.of("tuning_curves"):
        every = [stock.beside(name, row).warm for name, row in stock.in_order(result)]
        warm = [ratio for ratio in every if ratio is not None]
        if warm:
            found.append(geometric_mean(warm))
    if not found:
        return "warm ones on no machine"
    return f"warm ones: {times(min(found))} to {times(max(found))}, {len(found)} machines"
