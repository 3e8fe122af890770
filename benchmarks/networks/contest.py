"""Networks tuned by several searches in turns, and timed side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..checkouts import commit_of
from ..common import ROOT, kept_run
from ..kept_runs import KeptRuns
from .runs import side_by_side, tune, tune_by_stock

ALONE = ("rivals=[]", "untuned_limit_s=1e-6")
"""Overrides of a run that times only the tuned network."""

STOCK = "stock MetaSchedule, programs a task"
"""First word of a search by MetaSchedule, instead of overrides; the second word is its number of programs."""

BEFORE_SEARCH = ("start and imports", "network to tasks")
"""Stages of a run before its search."""


def of_networks(
    runs: KeptRuns,
    turns: Iterable[tuple[str, int]],
    searches: Mapping[str, Sequence[str]] | Callable[[int], Mapping[str, Sequence[str]]],
    overrides: Sequence[str],
    tell: Callable[[str, int, Mapping[str, Any]], str] | None = None,
) -> dict[str, Any]:
    """`one_of_each` for each network and seed of `turns`, by network, after the runs of an earlier result.

    `searches` may depend on the seed. `tell` formats the line about a run, by default `describe`.
    """
    tell, turns = tell or describe, list(turns)
    runs.progress.expect(len(turns))
    found = {name: list(each["runs"]) for name, each in runs.earlier.get("networks", {}).items()}
    for network, seed in turns:
        name, known = f"{network}-{seed}", found.setdefault(network, [])
        own = searches(seed) if callable(searches) else searches
        if is_known(known, own, seed) or not runs.in_time(name):
            continue
        run = runs.kept(
            name,
            {"network": network, "seed": seed, "searches": own, "overrides": overrides},
            partial(one_of_each, network, seed, runs.folder, own, overrides),
        )
        if run is not None:
            known.append(run)
            print(tell(network, seed, run), flush=True)
    return {name: {"runs": each} for name, each in found.items() if each}


def is_known(runs: Iterable[Mapping[str, Any]], searches: Collection[str], seed: int) -> bool:
    """Whether one of the runs has these searches and this seed."""
    first = next(iter(searches))
    return any(run.keys() >= set(searches) and run[first]["seed"] == seed for run in runs)


@dataclass(frozen=True)
class Budget:
    """Seconds for a search, from the seconds that another one spent on search and measurement."""

    rival: str
    """Name of the other search, which runs before this one."""
    share: float = 1.0
    start: bool = False
    """Whether to add the seconds before the other search began, which `budget_s` counts."""

    def seconds(self, run: Mapping[str, Any]) -> float:
        """Seconds of `budget_s`, from the run of `rival`."""
        before = sum(run["stage_s"][stage] for stage in BEFORE_SEARCH) if self.start else 0.0
        return before + self.share * float(run["search_s"])


def one_of_each(
    network: str,
    seed: int,
    folder: Path,
    searches: Mapping[str, Sequence[str]],
    overrides: Sequence[str],
    budgets: Mapping[str, Budget] | None = None,
    others: Mapping[str, Path] | None = None,
) -> dict[str, Any]:
    """A run of each search from an empty database, in a different order per seed, and the networks' timing.

    `searches` are overrides of `foretune tune` by name, or STOCK and its programs per task; `overrides` apply
    to all. A search in `budgets` runs after the search that sets its seconds. `side_by_side_s` are the
    latencies in seconds of the networks, by search, and of the libraries in `others`, by name. The work of an
    interrupted call is in `folder`, and the next call of the same commit continues from it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names, budgets = list(searches), budgets or {}
    libraries = {name: folder / f"{network}-{seed}-{re.sub(r'[^a-z0-9_]+', '-', name)}.so" for name in names}
    turns = [names[(seed + place) % len(names)] for place in range(len(names))]
    runs: dict[str, Any] = {}
    for name in sorted(turns, key=budgets.__contains__):
        words, library = list(searches[name]), libraries[name]
        if words[:-1] == [STOCK]:
            make = partial(tune_by_stock, network, seed, int(words[-1]), library)
        else:
            words = [*ALONE, *words, *overrides]
            if name in budgets:
                words.append(f"budget_s={budgets[name].seconds(runs[budgets[name].rival]):.1f}")
            make = partial(_run, network, seed, words, library)
        settings = {"commit": commit_of(ROOT), "words": words}
        runs[name] = kept_run(library.with_suffix(".json"), settings, make, library=library)
    found = {**runs, "side_by_side_s": side_by_side(network, {**libraries, **(others or {})})}
    for library in libraries.values():
        library.unlink(missing_ok=True)
        library.with_suffix(".json").unlink()
    return found


def _run(network: str, seed: int, overrides: Sequence[str], library: Path) -> dict[str, Any]:
    run = tune(ROOT, network, seed, overrides, export=library, timed=False)
    return {**run, "search_s": run["stage_s"]["search and measure"]}


def describe(network: str, seed: int, run: Mapping[str, Any]) -> str:
    """One line about a run of each search."""
    parts = [
        f"{name} {run[name]['measured']} programs, {run[name]['search_s']:.1f} s, {1e3 * latency_s:.3f} ms"
        for name, latency_s in run["side_by_side_s"].items()
    ]
    return f"{network}, seed {seed}: {'; '.join(parts)}"
