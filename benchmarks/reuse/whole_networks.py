"""Whole networks tuned with and without reuse, in turns, and timed side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common import ROOT
from ..networks.runs import side_by_side, tune

NETWORKS = ("resnet18", "mobilenetv2", "bert_base", "densenet121")
"""Networks of the part by default; DenseNet-121 has over 90 tasks."""

LARGE = ("densenet121",)
"""Networks whose second and further runs come last."""

SEARCHES: Mapping[str, tuple[str, ...]] = {
    "off": ("search.reuse=off",),
    "auto": ("search.reuse=auto",),
    "fewer": ("search.reuse=auto", "search.auto.starts=0"),
}
"""Overrides of `foretune tune` by the name of the search in a result; `fewer` takes no program over."""

ALONE = ("rivals=[]", "untuned_limit_s=1e-6")
"""Overrides by which a run times the tuned network alone."""


def turns(networks: Sequence[str], runs: int) -> list[tuple[str, int]]:
    """Networks with their seeds in the order of the runs: one of each first, further ones of LARGE last."""
    rounds = [(network, seed) for seed in range(runs) for network in networks]
    return sorted(rounds, key=lambda one: one[1] > 0 and one[0] in LARGE)


def one_of_each(network: str, seed: int, folder: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """A run of each search from an empty database, in another order for each seed, and their networks timed.

    `side_by_side_s` are the latencies in seconds of the networks, by search.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = list(SEARCHES)
    libraries = {name: folder / f"{network}-{seed}-{name}.so" for name in names}
    try:
        runs = {
            name: _run(network, seed, [*ALONE, *SEARCHES[name], *overrides], libraries[name])
            for name in (names[(seed + place) % len(names)] for place in range(len(names)))
        }
        return {**runs, "side_by_side_s": side_by_side(network, libraries)}
    finally:
        for library in libraries.values():
            library.unlink(missing_ok=True)


def _run(network: str, seed: int, overrides: Sequence[str], library: Path) -> dict[str, Any]:
    run = tune(ROOT, network, seed, overrides, export=library, timed=False)
    return {**run, "search_s": run["stage_s"]["search and measure"]}


def describe(network: str, seed: int, run: Mapping[str, Any]) -> str:
    """One line about a run of each search."""
    parts = [
        f"{name} {run[name]['measured']} programs, {run[name]['search_s']:.1f} s, "
        f"{1e3 * run['side_by_side_s'][name]:.3f} ms"
        for name in SEARCHES
    ]
    return f"{network}, seed {seed}: {'; '.join(parts)}"
