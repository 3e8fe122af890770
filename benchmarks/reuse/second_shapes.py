"""Networks tuned at one shape, then at another shape with the same database."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretune.compiler.networks import load_network
from foretune.errors import UserError
from foretune.inference.run.network_set import members_of

from ..common import ROOT
from ..networks.contest import ALONE
from ..networks.loaded import loaded_samples_s
from ..networks.runs import tune

TURNS = 5
"""Processes that time each of two networks."""


@dataclass(frozen=True)
class Shapes:
    """Overrides of a network's first shape and of its second one, and the second one's arguments."""

    first: Sequence[str]
    second: Sequence[str]
    arguments: Mapping[str, Any]


def _tokens(length: int) -> list[str]:
    return [f"inputs=[{{shape: [1, {length}], dtype: int64}}]"]


_SHORT = {"inputs": [{"shape": [1, 64], "dtype": "int64"}]}

CASES: Mapping[str, Shapes] = {
    "bert_base": Shapes(_tokens(128), _tokens(64), _SHORT),
    "resnet18": Shapes(["batch=1"], ["batch=4"], {"batch": 4}),
    "mobilenetv2": Shapes(["batch=1"], ["batch=4"], {"batch": 4}),
}
"""Networks of the part."""


def one_case(network: str, seed: int, overrides: Sequence[str]) -> dict[str, Any]:
    """Runs of a network: `first` from an empty database, `second` after it, `alone` as if it came first.

    The first two are tuned by `search.reuse=auto`; `alone` is the second shape from an empty database
    without reuse. `tuned_s` are latencies in seconds of the last two, timed in turns.
    """
    if network not in CASES:
        raise UserError(f"--networks {network}: the part shapes knows {', '.join(CASES)}; use one of them")
    shapes = CASES[network]
    common = [*ALONE, *overrides]
    with tempfile.TemporaryDirectory() as scratch:
        database = Path(scratch) / "database"
        libraries = {name: Path(scratch) / f"{name}.so" for name in ("second", "alone")}
        auto = ["search.reuse=auto", *common]
        first = _run(network, seed, [*shapes.first, *auto], database, None)
        second = _run(network, seed, [*shapes.second, *auto], database, libraries["second"])
        off = [*shapes.second, "search.reuse=off", *common]
        alone = _run(network, seed, off, None, libraries["alone"])
        tuned_s = _timed(network, shapes, libraries)
    return {
        "first": first,
        "second": {**second, "tuned_s": tuned_s["second"]},
        "alone": {**alone, "tuned_s": tuned_s["alone"]},
    }


def _run(
    network: str, seed: int, overrides: Sequence[str], database: Path | None, library: Path | None
) -> dict[str, Any]:
    run = tune(ROOT, network, seed, overrides, database=database, export=library, timed=False)
    return {**run, "search_s": run["stage_s"]["search and measure"]}


def _timed(network: str, shapes: Shapes, libraries: Mapping[str, Path]) -> dict[str, float]:
    """Median latency in seconds of each exported network by `foretune.load`, each time in a new process."""
    (member,) = members_of(network, **shapes.arguments)
    inputs = load_network(**member.arguments(0, None)).inputs
    samples = loaded_samples_s(libraries, inputs, TURNS)
    return {name: statistics.median(values) for name, values in samples.items()}


def describe(network: str, seed: int, run: Mapping[str, Any]) -> str:
    """One line about a case."""
    parts = [
        f"{name} {one['measured']} programs, {one['search_s']:.1f} s"
        + (f", {1e3 * one['tuned_s']:.3f} ms" if "tuned_s" in one else "")
        for name, one in run.items()
    ]
    return f"{network}, seed {seed}: {'; '.join(parts)}"
