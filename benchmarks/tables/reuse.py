"""Rows of reuse between tasks (ETO): pairs, plans, sets and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ..common import geometric_mean
from .declare import names
from .reading import Result, times


def pairs(result: Result) -> Iterator[dict[str, Any]]:
    """Single reuse pairs, method by method, as ratios to the backend."""
    for kind, runs in result.values["types"].items():
        for method in names()["method"]:
            for run in runs:
                latency_s, of = run["latency_s"], run["methods"]
                if {method, "backend"} <= latency_s.keys():
                    ratios = {
                        what: of[method][what] / of["backend"][what] for what in ("programs", "seconds")
                    }
                    speed = latency_s["backend"] / latency_s[method]
                    about = {
                        "type": kind,
                        "method": method,
                        "asked": len(runs),
                        "backend_s": latency_s["backend"],
                    }
                    yield {**about, **ratios, "speed": speed, "best": of[method]["programs_to_best"]}


SMALL_S = 5e-6
"""Latency below which waking a second thread takes longer than the work."""


def pairs_note(found: Sequence[Result]) -> str:
    """ETO ranked by the model on children of a few microseconds and on others; estimates of its costs."""
    frame = pd.DataFrame([row for result in found for row in pairs(result) if row["method"] == "eto_ranked"])
    small = frame["backend_s"] < SMALL_S
    said = [
        f"ETO ranked by the model: {times(geometric_mean(frame['speed'][which].tolist()))} over "
        f"{which.sum()} children that take the backend's program {words} {1e6 * SMALL_S:.0f} us."
        for which, words in ((~small, "at least"), (small, "less than"))
        if which.any()
    ]
    said += [
        f"ETO's estimate of the programs (section 6.1): {ratios['mean']:.2f} times the measured number, "
        f"{ratios['low']:.2f} to {ratios['high']:.2f} over {ratios['pairs']} pairs."
        for result in found
        if (ratios := result.values["estimates"])
    ]
    return " ".join(said)


def plans(result: Result) -> Iterator[dict[str, Any]]:
    """Plans of operator sets, by bridges and trials."""
    for name, of in result.values["plans"].items():
        for plan in of:
            yield {**plan, "set": name, "way": plan["bridges"], "ratio": plan["estimated"] / plan["backend"]}


def sets(result: Result) -> Iterator[dict[str, Any]]:
    """Operator sets, method by method, as ratios to the backend."""
    for name, runs in result.values["sets"].items():
        for run in runs:
            for method, of in run.items() if "backend" in run else ():
                ratios = {
                    what: of[what] / run["backend"][what] for what in ("latency_s", "programs", "seconds")
                }
                yield {**of, **ratios, "set": name, "search": method}


def ranges(result: Result) -> Iterator[dict[str, Any]]:
    """Ranges of a parent's program, by dataset and feature, in percent."""
    chosen = result.values["chosen"].split("+")
    keys = [f"{kind}/{name}" for kind, name in zip(("blocks", "threads", "shared"), chosen, strict=True)]
    letters = dict(zip(keys, "BTM", strict=True)) | {"+".join(chosen): "all three"}
    datasets = result.values["datasets"]
    for dataset in sorted(datasets, key=lambda name: -datasets[name]["pairs"]):
        of = datasets[dataset]
        for name, letter in letters.items():
            plain = "" if letter == "all three" else f": {name.split('/')[1].replace('_', ' ')}"
            percent = {key: 100 * share for key, share in of["means"][name].items()}
            about = {"dataset": f"`data/{dataset}`, {of['pairs']:,} pairs", "range": letter + plain}
            yield {**percent, **about, "letter": letter}
