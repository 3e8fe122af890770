"""Rows of tuned networks and their rivals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..common import median_spread
from ..tuning_curves.beside import beside, stock_of
from .declare import Claim, name_of, shown
from .reading import Result, milliseconds

FORETUNE = "foretune"

EVEN = 0.97
"""Ratio to the tuned network above which a rival does not count as faster."""

SHOWN_TASKS, NAME_CHARS = 3, 40


def rivals(result: Result) -> pd.DataFrame:
    """A row per network and rival: medians over its runs, the latency's cell, and the best rival.

    `ratio` is to the tuned network of the same run. `best` is the least ratio of a network's rivals, and
    `claim` its text with the range over the runs. Timings that were disturbed or failed are missing.
    """
    frame = pd.DataFrame([{"run": 0, **row} for row in result.values["rows"]])
    frame["failed"] = frame["error"] != ""
    frame["claimed"] = frame["latency_s"].where(~(frame["failed"] | frame["disturbed"]))
    ours = frame[frame["rival"] == FORETUNE].set_index(["network", "run"])["claimed"]
    tuned = ours.reindex(pd.MultiIndex.from_frame(frame[["network", "run"]])).to_numpy()
    frame["ratio"] = (frame["claimed"] / tuned).where(frame["rival"] != FORETUNE)
    groups = frame.groupby(["network", "rival"], sort=False)
    found = groups.agg({"ratio": "median", "failed": "all", "run": "nunique"}).reset_index()
    for name in ("ready_s", "peak_mb"):
        known = pd.to_numeric(frame[name]).where(~frame["failed"])
        found[name] = known.groupby(groups.ngroup()).median()
    first = groups.first().reset_index()
    best = found["ratio"].groupby(found["network"]).transform("min")
    best_rival = found["network"].map(found[found["ratio"] == best].set_index("network")["rival"])
    networks = result.values["networks"]
    return first[["network", "rival", "dtype", "version", "error"]].assign(
        **found[["ratio", "failed", "ready_s", "peak_mb"]],
        runs=found["run"],
        cell=[_cell(group) for _, group in groups],
        best=best,
        best_rival=best_rival.map(lambda rival: name_of("rival", rival)),
        claim=[
            _claim(frame, network, rival) for network, rival in zip(found["network"], best_rival, strict=True)
        ],
        share=[networks.get(name, {}).get("share_of_peak") for name in found["network"]],
        which=result.variant,
    )


def _cell(runs: pd.DataFrame) -> str:
    """Median latency of a rival's runs with the range."""
    if runs["failed"].all():
        return "failed"
    known = runs["claimed"].dropna().tolist()
    return shown(median_spread(known), "ms") if known else "disturbed"


def _claim(frame: pd.DataFrame, network: str, rival: str) -> str:
    """Median ratio of a rival with the range over the runs."""
    ratios = frame.loc[(frame["network"] == network) & (frame["rival"] == rival), "ratio"].dropna().tolist()
    return shown(Claim.of(ratios), "x") if ratios else "-"


def note(found: Sequence[Result]) -> str:
    """Settings, data types and failures of a result."""
    (result,) = found
    values, rows = result.values, result.values["rows"]
    ours = {row["dtype"] for row in rows if row["rival"] == FORETUNE}
    others = {row["rival"]: row["dtype"] for row in rows if row["dtype"] not in ours and not row["error"]}
    types = [*ours, *(f"{name_of('rival', rival)} in {dtype}" for rival, dtype in others.items())]
    said = f"Defaults {' '.join(values['overrides'])}".strip() + f"; {', '.join(types)}."
    if peaks := sorted({one["peak_gflops"] for one in values["networks"].values()} - {None}):
        said += f" {values['threads']} threads, peak {peaks[0]:.0f} to {peaks[-1]:.0f} GFLOP/s in float32."
    failures = [
        f"{name_of('rival', row['rival'])} with {name_of('network', row['network'])} "
        f"({row['error'].partition(' (')[0].rstrip('.')})"
        for row in rows
        if row["error"]
    ]
    said += f" Failed: {'; '.join(sorted(set(failures)))}." if failures else ""
    for network, timings in values.get("launches", {}).items():
        for way, seconds in timings.items():
            times = ", ".join(f"{name_of('rival', name)} {milliseconds(s)}" for name, s in seconds.items())
            said += f" {name_of('network', network)} timed again, {way.replace('_', ' ')}: {times}."
    return said


def lost(result: Result) -> Iterator[dict[str, Any]]:
    """The tasks that lose the most time to the peak, for networks that are slower than a rival."""
    best = rivals(result).groupby("network")["best"].first()
    for network in best.index[best < EVEN]:
        of = result.values["networks"][network]
        tasks = [
            {
                **task,
                "network": network,
                "name": f"`{task['task'][:NAME_CHARS]}`",
                "lost_s": of["tasks_s"] * task["share_of_time"] * max(0, 1 - task["share_of_peak"]),
            }
            for task in of["longest"]
        ]
        yield from sorted(tasks, key=lambda task: -task["lost_s"])[:SHOWN_TASKS]


def single_tasks(result: Result) -> Iterator[dict[str, Any]]:
    """Tasks of `tuning_curves`, foretune and stock MetaSchedule.

    `claim` is the speed with its range between the extreme runs of both, which contains 1 if these overlap.
    """
    for name, row in result.values["tasks"].items():
        one, runs = beside(row), row["runs"]
        own, stock = (
            [math.inf if run["cold_s"] is None else run["cold_s"] for run in runs[tuner]]
            for tuner in ("foretune", stock_of(runs))
        )
        ends = min(stock) / max(own), max(stock) / min(own)
        yield {
            **vars(one),
            "less_time": one.less_time,
            "near": one.less_time_near,
            "claim": Claim(one.cold, *ends, min(len(own), len(stock))),
            "runs": f"{len(own)}, {len(stock)}",
            "task": f"`{name}`",
        }


def of_commits(result: Result) -> Iterator[dict[str, Any]]:
    """Tasks that two commits tuned: ratios of the geometric means over seeds."""
    commits = [f"`{str(commit)[:7]}`" for commit in result.manifest["checkouts"].values()]
    for row in result.values["tasks"].values():
        this, other = (
            pd.DataFrame(row["runs"][name])[["seconds", "cold_s", "warm_s"]] for name in ("this", "other")
        )
        means = np.exp(np.log(this).mean() - np.log(other).mean())
        yield {**means, "commits": " against ".join(commits), "seeds": len(this)}


TO_LIBRARY = ("network to tasks", "search and measure", "end of the processes", "compile", "link", "export")
"""Stages from the imports to a library. A run without measurements links in its export, others copy."""


UNTIL_LIBRARY = {
    "start": ("start and imports",),
    "tasks": ("network to tasks",),
    "search": ("search and measure", "end of the processes"),
    "compile": ("compile", "link"),
    "check": ("check outputs", "export"),
}
"""Stages before the library is there, by their name in the table."""


def to_library(result: Result) -> Iterator[dict[str, Any]]:
    """Runs of an earlier checkout and of the measured one: seconds, and ratios of this one to the earlier.

    `stages` are those of this checkout: their seconds until the library is there.
    """
    for network, of in result.values["networks"].items():
        for run in of["runs"]:
            now, before, timed = run["now"], run["before"], run["side_by_side_s"]
            stages = now["stage_s"]
            until_library = {
                name: sum(stages.get(one, 0.0) for one in names) for name, names in UNTIL_LIBRARY.items()
            }
            yield {
                "stages": until_library,
                "network": network,
                "tasks": now["tasks"],
                "seed": now["seed"],
                "before_s": before["library_s"],
                "now_s": now["library_s"],
                "library": now["library_s"] / before["library_s"],
                "total": now["total_s"] / before["total_s"],
                "programs": now["measured"] / before["measured"],
                "latency": timed["now"] / timed["before"],
                "before": f"`{result.values['before'][:7]}`",
            }


def unmeasured(result: Result) -> Iterator[dict[str, Any]]:
    """Seconds until a network is linked, and the share of the default's speed, by search."""
    for network, of in result.values["networks"].items():
        for run in of["runs"]:
            timed = run["side_by_side_s"]
            took = {
                f"{name}_s": sum(run[name]["stage_s"].get(stage, 0.0) for stage in TO_LIBRARY)
                for name in timed
            }
            yield {
                "network": network,
                **took,
                **{f"{name}_share": timed["default"] / timed[name] for name in timed},
            }


def stages(result: Result) -> Iterator[dict[str, Any]]:
    """Runs with nothing to tune: a row per run and stage, and the time outside all stages."""
    for network, of in result.values["networks"].items():
        for run in of["runs"]:
            stages = {**run["stage_s"], "in no stage": run["total_s"] - sum(run["stage_s"].values())}
            for stage, seconds in {"all": run["total_s"], **stages}.items():
                yield {"network": network, "tasks": of["tasks"], "stage": stage, "seconds": seconds}


def growing(result: Result) -> Iterator[dict[str, Any]]:
    """Runs over the number of tasks with the seconds of a further one by the fit, and the deep network."""
    for row in result.values["rows"]:
        yield {**row, "search": "default", "further_s": result.values["per_task"]["total_s"]}
    if deep := result.values.get("deep"):
        yield {**deep, "search": "one second"}


def scheduling(result: Result) -> pd.DataFrame:
    """Programs compiled with LLVM's bounded scheduler and without, with the ratios for each source."""
    frame = pd.json_normalize(result.values["programs"])
    plain, bounded = frame["compile_s.unbounded"], frame["compile_s.bounded"]
    place = plain.groupby(frame["source"]).rank(ascending=False, method="first")
    tenth = frame.index[place <= np.ceil(frame.groupby("source")["source"].transform("size") / 10)]
    sums = {"time": frame.index, "slow": tenth}
    ratios = {
        name: bounded[at].groupby(frame["source"]).sum() / plain[at].groupby(frame["source"]).sum()
        for name, at in sums.items()
    }
    latency = frame["latency_s.bounded"] / frame["latency_s.unbounded"]
    return frame.assign(
        latency=latency, **{name: frame["source"].map(ratio) for name, ratio in ratios.items()}
    )
