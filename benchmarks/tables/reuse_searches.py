"""Tables of searches with and without reuse between tasks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..common import geometric_spread
from .contests import CONTEST_HEADS, contest_rows
from .networks import NETWORKS, in_order
from .reading import Result, Results, markdown, not_measured, times, times_spread

COMMAND = "python -m benchmarks.reuse --part "

_VARIANTS = {"two-templates": "two templates a child"}
"""`two-templates` is of commits that measured only two templates of a task that reuses others."""

_SEARCHES = {"auto": "auto, starts=4", "fewer": "auto, starts=0"}
"""Names of searches in results by what they are: `fewer` is the default where a target has templates."""


def networks(results: Results) -> str:
    """Whole networks: a row a machine, network and search, as ratios to the search without reuse."""
    found = results.of("reuse_networks")
    if not found:
        return not_measured(f"{COMMAND}networks")
    rows = [
        [_machine(result), NETWORKS.get(name, name), _SEARCHES.get(search, search), *cells]
        for result in found
        for name, runs in in_order(result)
        for search, *cells in contest_rows(runs, "off")
    ]
    return markdown(
        CONTEST_HEADS,
        rows,
        "Ratios to the search without reuse, geometric means with the least and the most of runs from an "
        "empty database. The networks of a run are timed side by side. With starts=4 tasks that follow "
        "others begin with up to four adapted programs, with starts=0, the default where a target has "
        "templates, with none. The other rows have four: `short` gives sources three rounds and depthwise "
        "convolutions one; `shared` shares the surrogate in a family; `two_rounds` gives depthwise "
        "convolutions a second round.",
    )


def _machine(result: Result) -> str:
    """Name of a machine, and what its result varies."""
    variant = result.manifest["variant"]
    return f"{result.machine}, {_VARIANTS.get(variant, variant)}" if variant else result.machine


METHODS = {
    "eto": "ETO",
    "eto_ranked": "ETO ranked by the model",
    "top_k": "TopK",
    "backend": "stock MetaSchedule",
}


def shapes(results: Results) -> str:
    """Second shapes: a row a machine and network."""
    found = results.of("reuse_shapes")
    if not found:
        return not_measured(f"{COMMAND}shapes")
    searched = ("measured", "search_s")
    compared = [
        *(("first", what) for what in searched),
        *(("alone", what) for what in (*searched, "tuned_s")),
    ]
    rows = []
    for result in found:
        for name, runs in result.values["shapes"].items():
            ratios = [
                times(geometric_spread([run["second"][what] / run[other][what] for run in runs]).middle)
                for other, what in compared
            ]
            rows.append([result.machine, NETWORKS.get(name, name), *ratios, str(len(runs))])
    return markdown(
        ["machine", "network", "programs", "seconds", "own programs", "own seconds", "own latency", "runs"],
        rows,
        "Programs and seconds of the search of the second shape over those of the first; `own` are ratios to "
        "a search of the second shape alone, without reuse. Second shapes: 64 tokens after 128 (BERT-base), "
        "a batch of 4 after 1 (the others).",
    )


def pairs(results: Results) -> str:
    """Single reuse pairs: a row a machine, operator type and method (ETO, Figures 7 and 8)."""
    found = results.of("reuse_pairs")
    if not found:
        return not_measured(f"{COMMAND}pairs")
    rows = []
    for result in found:
        for kind, runs in result.values["types"].items():
            for method, title in METHODS.items():
                ran = [run for run in runs if method in run["latency_s"] and "backend" in run["latency_s"]]
                if not ran:
                    continue
                speed = geometric_spread(
                    [run["latency_s"]["backend"] / run["latency_s"][method] for run in ran]
                )
                shares = [
                    statistics.fmean(
                        run["methods"][method][what] / run["methods"]["backend"][what] for run in ran
                    )
                    for what in ("programs", "seconds")
                ]
                best = statistics.fmean(run["methods"][method]["programs_to_best"] for run in ran)
                cells = [times_spread(speed), times(shares[0]), times(shares[1]), f"{best:.0f}"]
                rows.append([result.machine, kind, title, f"{len(ran)} of {len(runs)}", *cells])
    heads = [
        "machine",
        "type",
        "search",
        "pairs",
        "throughput",
        "programs",
        "seconds",
        "programs to its best",
    ]
    trials = ", ".join(str(result.values["trials"]) for result in found)
    return markdown(
        heads,
        rows,
        f"Ratios to stock MetaSchedule with {trials} programs measured by Foretune: geometric mean of the "
        "throughput with the least and the most, means of programs and seconds. The fastest programs of a "
        "pair are timed in turns." + _small_children(found) + _estimates(found),
    )


SMALL_S = 5e-6
"""Latency below which waking a second thread takes longer than the work."""


def _small_children(found: Sequence[Result]) -> str:
    """Sentence on children of a few microseconds beside the others, of ETO ranked by the model."""
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for result in found:
        for runs in result.values["types"].values():
            for run in runs:
                latency_s = run["latency_s"]
                if {"backend", "eto_ranked"} <= latency_s.keys():
                    ratio = latency_s["backend"] / latency_s["eto_ranked"]
                    ratios[latency_s["backend"] < SMALL_S].append(ratio)
    if not all(ratios.values()):
        return ""
    small, large = (times(geometric_spread(ratios[which]).middle) for which in (True, False))
    return (
        f" ETO ranked by the model reaches {large} over the {len(ratios[False])} children that take the "
        f"backend's program at least {1e6 * SMALL_S:.0f} us, and {small} over the {len(ratios[True])} others."
    )


def _estimates(found: Sequence[Result]) -> str:
    """Sentence on the estimated search costs of Algorithm 1 beside the programs that it measured."""
    return "".join(
        f" On {result.machine}, ETO's estimate of the programs (its section 6.1) is {ratios['mean']:.2f} "
        f"times those measured on average, {ratios['low']:.2f} to {ratios['high']:.2f} over "
        f"{ratios['pairs']} pairs."
        for result in found
        if (ratios := result.values["estimates"])
    )


def plans(results: Results) -> str:
    """ETO's plans for the operator sets: a row a set and kind of bridges (section 6, Figure 11)."""
    found = results.of("reuse_plans")
    if not found:
        return not_measured(f"{COMMAND}plans")
    rows, trials = [], dict[int, None]()
    for result in found:
        for name, listed in result.values["plans"].items():
            for bridges in dict.fromkeys(plan["bridges"] for plan in listed):
                own = [plan for plan in listed if plan["bridges"] == bridges]
                trials |= dict.fromkeys(plan["trials"] for plan in own)
                cells = [_plan(plan) for plan in own]
                rows.append([name, str(own[0]["operators"]), bridges.replace("_", " "), *cells])
    heads = ["set", "operators", "bridges", *(f"{count} trials" for count in trials)]
    return markdown(
        heads,
        rows,
        "Operators that the backend would search, bridges that the tree would take, and the estimated "
        "programs of the tree as a ratio to the backend's alone, by the number of programs that the backend "
        "measures of an operator. Nothing is measured.",
    )


def _plan(plan: Mapping[str, Any]) -> str:
    return f"{plan['searched']} + {plan['bridges_taken']}, {times(plan['estimated'] / plan['backend'])}"


def sets(results: Results) -> str:
    """Operator sets: a row a machine, set and method (ETO, Figures 9 to 11)."""
    found = results.of("reuse_sets")
    if not found:
        return not_measured(f"{COMMAND}sets")
    rows = []
    for result in found:
        for name, runs in result.values["sets"].items():
            for method in dict.fromkeys(method for run in runs for method in run):
                both = [(run[method], run["backend"]) for run in runs if {method, "backend"} <= set(run)]
                if not both:
                    continue
                speed, programs, seconds = (
                    geometric_spread([run[what] / base[what] for run, base in both])
                    for what in ("latency_s", "programs", "seconds")
                )
                last = both[-1][0]
                searched = f"{last['searched']} of {last['operators']}"
                cells = [times(1 / speed.middle), times(programs.middle), times(seconds.middle)]
                trials, bridges = str(last["trials"]), str(last["bridges"])
                rows.append([result.machine, name, trials, method, searched, bridges, *cells])
    heads = ["machine", "set", "trials", "search", "searched", "bridges", "throughput", "programs", "seconds"]
    return markdown(
        heads,
        rows,
        "Ratios to stock MetaSchedule, with so many programs a task measured by Foretune. Throughput is that "
        "of all calls of the operators, whose fastest programs are timed in turns.",
    )
