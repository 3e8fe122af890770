"""Tables of single tasks: foretune beside stock MetaSchedule, and one commit beside another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common import Spread, geometric_mean, geometric_spread
from .contests import NEAR, seconds_to
from .reading import (
    Result,
    Results,
    duration,
    markdown,
    milliseconds,
    not_measured,
    times,
    times_spread,
)

TASKS = {
    "resnet18-0": "ResNet-18, largest",
    "mobilenetv2-0": "MobileNetV2, largest",
    "bert_base-0": "BERT-base, largest",
    "C1D-0": "conv1d",
    "C2D-0": "conv2d",
    "CBR-0": "conv2d, bias, batch norm, ReLU",
    "CAP-0": "capsule conv2d",
    "DEP-0": "depthwise conv2d",
    "DIL-0": "dilated conv2d",
    "GRP-0": "grouped conv2d",
    "T2D-0": "transposed conv2d",
    "GMM-0": "matrix product",
    "TBG-0": "transposed matrix product",
    "SFM-0": "softmax",
    "NRM-0": "norm",
}
"""Names of tasks in the order of the tables."""

OF_NETWORKS = ("resnet18", "mobilenetv2", "bert_base")
SOFTMAX = "SFM"

STOCK = {
    "stock": "LocalBuilder, LocalRunner",
    "stock_measured_by_foretune": "foretune",
}
"""Measurement of stock's search, in the order of preference as what foretune is compared with."""

TO_NEAR = f"to {NEAR - 1:.0%}"
"""Head of a column of seconds until NEAR."""


@dataclass(frozen=True)
class Beside:
    """Foretune beside stock on one task; ratios are above 1 where foretune is ahead."""

    name: str
    trials: int
    seconds: float
    stock_s: float
    stock_near_s: float
    """Seconds until a program of stock's is within NEAR of its last one."""
    cold_s: float
    stock_cold_s: float
    warm: float | None
    """Ratio of latencies with warm caches."""
    as_fast: int
    runs: int

    @property
    def less_time(self) -> float:
        """Seconds of all trials of stock over those of foretune."""
        return self.stock_s / self.seconds

    @property
    def less_time_near(self) -> float:
        """Seconds until stock is within NEAR of its last program over those of all of foretune's search."""
        return self.stock_near_s / self.seconds

    @property
    def cold(self) -> float:
        """Ratio of latencies with cold caches."""
        return self.stock_cold_s / self.cold_s


def stock_of(runs: Mapping[str, Any]) -> str:
    """The tuner that the others are compared with."""
    return next(name for name in STOCK if name in runs)


def beside(name: str, row: Mapping[str, Any], tuner: str = "foretune") -> Beside:
    """Medians of the runs of a tuner beside those of stock."""
    runs, stock = row["runs"][tuner], row["runs"][stock_of(row["runs"])]
    stock_cold_s = _middle(stock, "cold_s")
    warm = None
    if all(run["warm_s"] is not None for run in (*runs, *stock)):
        warm = _middle(stock, "warm_s") / _middle(runs, "warm_s")
    return Beside(
        name=name,
        trials=row["trials"],
        seconds=_middle(runs, "seconds"),
        stock_s=_middle(stock, "seconds"),
        stock_near_s=statistics.median(_near(run) for run in stock),
        cold_s=_middle(runs, "cold_s"),
        stock_cold_s=stock_cold_s,
        warm=warm,
        as_fast=sum((run["cold_s"] or math.inf) <= stock_cold_s for run in runs),
        runs=len(runs),
    )


def _near(run: Mapping[str, Any]) -> float:
    """Seconds of a run until its curve is within NEAR of its last program."""
    near_s = None if run["cold_s"] is None else seconds_to(run["curve"], NEAR * run["cold_s"])
    return float(run["seconds"]) if near_s is None else near_s


def _middle(runs: Sequence[Mapping[str, Any]], key: str) -> float:
    return statistics.median(math.inf if run[key] is None else run[key] for run in runs)


def in_order(result: Result) -> list[tuple[str, Mapping[str, Any]]]:
    """Tasks of a result."""
    rows = result.values["tasks"]
    order = list(TASKS)
    return sorted(rows.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def groups(found: Sequence[Beside]) -> dict[str, list[Beside]]:
    """Groups of tasks that are told apart: of networks, operators, all with and without the softmax."""
    networks = [one for one in found if one.name.rpartition("-")[0] in OF_NETWORKS]
    operators = [one for one in found if one not in networks]
    plain = [one for one in found if not one.name.startswith(SOFTMAX)]
    told = {"of networks": networks, "operators": operators if networks else []}
    told |= {"all": found, "all but the softmax": plain if len(plain) < len(found) else []}
    return {name: each for name, each in told.items() if each and (name == "all" or each != list(found))}


def trials(found: Sequence[Beside]) -> str:
    """Trials of stock's search."""
    return " or ".join(f"{count:,}" for count in sorted({one.trials for one in found}))


def warm_spread(found: Sequence[Beside]) -> Spread | None:
    """Ratios with warm caches, None unless all tasks have one."""
    ratios = [one.warm for one in found if one.warm is not None]
    return geometric_spread(ratios) if len(ratios) == len(found) else None


def with_warm(found: Sequence[Beside]) -> list[Beside]:
    """Tasks that were timed with cold and with warm caches, none unless these are some but not all."""
    timed = [one for one in found if one.warm is not None]
    return timed if 0 < len(timed) < len(found) else []


def summary(results: Results) -> str:
    """One row a machine, search and group of tasks."""
    rows = []
    for result in results.of("tuning_curves"):
        if result.manifest["variant"] == "parts":
            continue
        found = [beside(name, row) for name, row in in_order(result)]
        told = groups(found)
        if timed := with_warm(found):
            told["those timed with both"] = timed
        for group, each in told.items():
            warm = warm_spread(each)
            rows.append(
                [
                    *(result.machine, result.search, f"{group} ({len(each)})", trials(each)),
                    times_spread(geometric_spread([one.less_time for one in each])),
                    times_spread(geometric_spread([one.less_time_near for one in each])),
                    times_spread(geometric_spread([one.cold for one in each])),
                    "-" if warm is None else times_spread(warm),
                ]
            )
    heads = ["machine", "search", "tasks", "stock's trials", "less time", f"less time, {TO_NEAR}"]
    heads += ["speed, cold caches", "speed, warm caches"]
    return markdown(
        heads,
        rows,
        "Geometric means over tasks of medians of runs, least and most in brackets; speed is stock's latency "
        "over foretune's. Less time: of all trials of stock, and of those until its program is within "
        f"{NEAR - 1:.0%} of its last one. Foretune times programs with cold caches, stock's runner with "
        "warm ones. On Zen 3 stock's own builder hardly builds, so that foretune measures for its search. "
        "Stock chose its softmax with `exp` of a C library, and both are timed with `exp` in vectors; of the "
        "norm it ends after 60 programs. Settings of foretune's search were chosen on these tasks, among "
        "others."
        f"{_timed_twice(results)}",
    )


def _timed_twice(results: Results) -> str:
    """Sentence on how far the ratio of the same programs is from that of an earlier timing."""
    for result in results.of("tuning_curves"):
        before = result.values.get("timed_before")
        if before:
            now = {name: beside(name, row).cold for name, row in in_order(result)}
            most = max(abs(now[name] / ratio - 1) for name, ratio in before.items())
            return (
                f" Timed twice, the ratios of the same programs of {len(before)} tasks differ by up to "
                f"{most:.1%} on {result.machine}."
            )
    return ""


def tasks(results: Results) -> str:
    """One row a machine and task."""
    rows = []
    for result in results.of("tuning_curves"):
        if result.manifest["variant"] == "parts":
            continue
        for name, row in in_order(result):
            one = beside(name, row)
            exported = ", as exported" if row["as_exported"] else ""
            rows.append(
                [
                    *(result.machine, result.search, TASKS.get(name, name) + exported, f"{one.trials:,}"),
                    *(duration(one.seconds), duration(one.stock_s), duration(one.stock_near_s)),
                    *(times(one.less_time), times(one.less_time_near)),
                    *(milliseconds(one.cold_s), milliseconds(one.stock_cold_s), times(one.cold)),
                    *(times(one.warm), f"{one.as_fast} of {one.runs}"),
                ]
            )
    heads = ["machine", "search", "task", "stock's trials", "foretune takes", "stock takes", TO_NEAR]
    heads += ["less time", f"less time, {TO_NEAR}"]
    heads += ["foretune's program", "stock's program", "speed, cold", "speed, warm", "runs as fast as stock"]
    return markdown(
        heads,
        rows,
        "Medians of foretune's runs; stock ran once. Latencies with cold caches. Networks are channels last "
        "with weights that each program packs, but where `as exported` stands.",
    )


def parts(results: Results) -> str:
    """Gain of stock's search by foretune's measurement, and by its search, too."""
    rows, names = [], []
    for result in results.of("tuning_curves", "parts"):
        tuners = {
            "stock's search, foretune's measurement": "stock_measured_by_foretune",
            "foretune": "foretune",
            "random programs, foretune's measurement": "random",
        }
        for label, tuner in tuners.items():
            every = [beside(n, row, tuner) for n, row in in_order(result) if tuner in row["runs"]]
            names = [TASKS.get(name, name) for name, _ in in_order(result)]
            rows.append(
                [
                    *(result.machine, label, str(len(every))),
                    times_spread(geometric_spread([one.less_time for one in every])),
                    times_spread(geometric_spread([one.cold for one in every])),
                ]
            )
    heads = ["machine", "search and measurement", "tasks", "less time", "speed"]
    note = f"Against stock with 256 trials on {', '.join(names)}; random programs on the first two."
    return markdown(heads, rows, note)


def checkouts(results: Results) -> str:
    """Two commits on the same tasks, in turns."""
    found = results.of("single_tasks_against")
    if not found:
        return not_measured("python -m benchmarks.single_tasks --against CHECKOUT")
    rows = []
    for result in found:
        commits = {name: (commit or "?")[:7] for name, commit in result.manifest["checkouts"].items()}
        every: dict[str, list[float]] = {"seconds": [], "cold_s": [], "warm_s": []}
        for name, row in in_order(result):
            means = {
                key: geometric_mean([run[key] for run in row["runs"]["this"]])
                / geometric_mean([run[key] for run in row["runs"]["other"]])
                for key in every
            }
            for key, ratio in means.items():
                every[key].append(ratio)
            rows.append(
                [
                    *(result.machine, f"{commits['this']} against {commits['other']}", TASKS.get(name, name)),
                    str(len(row["runs"]["this"])),
                    *(times(means[key]) for key in every),
                ]
            )
        spread = [times_spread(geometric_spread(ratios)) for ratios in every.values()]
        rows.append([result.machine, "", "all, geometric mean", "", *spread])
    heads = ["machine", "commits", "task", "seeds", "seconds of search", "latency, cold", "latency, warm"]
    return markdown(
        heads,
        rows,
        "Geometric means over seeds; below 1 the first commit is ahead. Programs are timed in turns.",
    )
