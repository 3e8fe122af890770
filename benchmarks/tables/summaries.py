"""Tables from several benchmarks: the README's, and ideas that did not help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from ..common import geometric_mean
from . import contests, templates
from .declare import UNSURE, UNSURE_NOTE, Column, name_of, table_text
from .reading import Result, Results, duration, not_measured, times
from .speed import FORETUNE, rivals

FIRST = ("resnet18", "mobilenetv2", "bert_base")
"""Networks of the README's first rows."""


def today(results: Results) -> str:
    """Tuned networks compared with PyTorch eager, the best rival, and MetaSchedule's own search."""
    rows = []
    for number, result in enumerate([*results.of("rivals/"), *results.of("rivals/untouched")]):
        frame = rivals(result)
        for network in FIRST if number == 0 else ():
            of = frame[frame["network"] == network].set_index("rival")
            over = f"{times(of['ratio']['eager'])} PyTorch eager, {of['claim'].iloc[0]} the best rival"
            commit = result.values["networks"][network]["commit"][:7]
            took = duration(of["ready_s"][FORETUNE])
            rows.append(
                [f"{name_of('network', network)}, {result.machine}", took, over, f"{result.date}, `{commit}`"]
            )
        ours = frame[frame["rival"] == FORETUNE]
        which = " without templates of their own" if result.variant else ""
        over = f"{Column('', 'best | x @ spread').over(ours)(range(len(ours)))} the best rival"
        took = duration(ours["ready_s"].median())
        rows.append([f"{len(ours)} networks{which}, {result.machine}", took, over, result.measured])
    for result in results.of("fasor")[:1]:
        frame = contests.ratios(result, "stock", ["default"])
        less, speed = (geometric_mean(frame[what].tolist()) for what in ("less_time", "speed"))
        label = f"{frame['network'].nunique()} networks, {result.machine}, search alone"
        over = f"{times(speed)} MetaSchedule with 64 programs a task"
        rows.append([label, f"1/{less:.0f} of MetaSchedule's time", over, result.measured])
    if not rows:
        return not_measured("python -m benchmarks.rivals")
    frame = pd.DataFrame(rows, columns=["network", "tuning takes", "speed of the result", "measured"])
    return table_text(frame, UNSURE_NOTE if UNSURE in "".join(frame["speed of the result"]) else "")


NO_GAIN = {
    "fasor": {
        "the deep Q-network without measurements and templates": ("fasor", "default"),
        "pretuned starts": ("pretuned", "default"),
        "a sub-space of 6 primitives": ("sub_space_6", "default"),
        "the deep Q-network": ("dqn", "default"),
    },
    "families": {
        "the planner `gradient`": ("gradient", "shares"),
        "the planner `foresee`": ("foresee", "shares"),
        "the planner `headroom`": ("headroom", "shares"),
        "`headroom` with a shared surrogate, both with reuse": ("headroom, reuse, shared", "shares, reuse"),
    },
    "reuse_networks": {"adapted programs of similar tasks as starts, both with reuse": ("auto", "fewer")},
}
"""Benchmark -> idea -> search with it, and the search for comparison."""


def no_gain(result: Result) -> Iterator[dict[str, Any]]:
    """Ideas that are not the default, as ratios to the search without them."""
    benchmark = str(result.manifest["benchmark"])
    part = "live" if benchmark == "families" else "networks"
    for idea, (search, base) in NO_GAIN.get(benchmark, {}).items():
        for row in contests.ratios(result, base, [search], part).to_dict("records"):
            yield {**row, "idea": idea, "base": base}
    if benchmark == "fusion":
        for row in templates.fusion(result):
            if row["gain"] and not row["layers"].startswith("dense"):
                about = {"idea": "back-to-back fusion of convolutions", "base": "separate functions"}
                yield {**about, "network": row["layers"], "latency": 1 / row["gain"]}
