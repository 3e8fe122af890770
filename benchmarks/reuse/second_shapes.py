"""Networks tuned at one shape, then at another one with the same database."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretune.errors import UserError
from foretune.inference.result import TUNED

from ..common import ROOT
from ..networks.contest import ALONE
from ..networks.runs import tune


@dataclass(frozen=True)
class Shapes:
    """Overrides of a network's first shape and of its second one."""

    first: Sequence[str]
    second: Sequence[str]


def _tokens(length: int) -> list[str]:
    return [f"inputs=[{{shape: [1, {length}], dtype: int64}}]"]


CASES: Mapping[str, Shapes] = {
    "bert_base": Shapes(_tokens(128), _tokens(64)),
    "resnet18": Shapes(["batch=1"], ["batch=4"]),
    "mobilenetv2": Shapes(["batch=1"], ["batch=4"]),
}
"""Networks of the part."""


def one_case(network: str, seed: int, overrides: Sequence[str]) -> dict[str, Any]:
    """Runs of a network: `first` from an empty database, `second` behind it, `alone` as if it came first.

    The first two are tuned by `search.reuse=auto`; `alone` is the second shape from an empty database
    without reuse.
    """
    if network not in CASES:
        raise UserError(f"--networks {network}: the part shapes knows {', '.join(CASES)}; use one of them")
    shapes = CASES[network]
    common = [*ALONE, *overrides]
    with tempfile.TemporaryDirectory() as folder:
        auto = ["search.reuse=auto", *common]
        first = _run(network, seed, [*shapes.first, *auto], Path(folder))
        second = _run(network, seed, [*shapes.second, *auto], Path(folder))
    alone = _run(network, seed, [*shapes.second, "search.reuse=off", *common], None)
    return {"first": first, "second": second, "alone": alone}


def _run(network: str, seed: int, overrides: Sequence[str], database: Path | None) -> dict[str, Any]:
    run = tune(ROOT, network, seed, overrides, database=database)
    return {**run, "search_s": run["stage_s"]["search and measure"], "tuned_s": run["latency_s"][TUNED]}


def describe(network: str, seed: int, run: Mapping[str, Any]) -> str:
    """One line about a case."""
    parts = [
        f"{name} {one['measured']} programs, {one['search_s']:.1f} s, {1e3 * one['tuned_s']:.3f} ms"
        for name, one in run.items()
    ]
    return f"{network}, seed {seed}: {'; '.join(parts)}"
