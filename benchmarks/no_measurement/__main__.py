"""Entry of `python -m benchmarks.no_measurement`."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import no_measurement
from ..checkouts import commit_of
from ..common import RESULTS, ROOT, argument_parser, in_turns, kept_run, start, this_machine, write_result
from ..networks.runs import DisturbedError, side_by_side, tune

NETWORKS = ("resnet18", "mobilenetv2", "bert_base", "squeezenet")
SEARCHES = {"default": (), "predicted": ("search=no_measurement",)}
"""Overrides of `foretune tune` by the name of the search in a result."""

FAILED = (subprocess.SubprocessError, OSError, DisturbedError)


def pair(network: str, seed: int, folder: Path) -> dict[str, Any]:
    """A run of each search, in another order for each seed, and their networks timed side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    libraries = {name: folder / f"{network}-{seed}-{name}.so" for name in SEARCHES}
    try:
        runs = {
            name: tune(ROOT, network, seed, SEARCHES[name], export=libraries[name])
            for name in sorted(SEARCHES, reverse=bool(seed % 2))
        }
        return {**runs, "side_by_side_s": side_by_side(network, libraries)}
    finally:
        for library in libraries.values():
            library.unlink(missing_ok=True)


def describe(network: str, seed: int, run: dict[str, Any]) -> str:
    """One line about a pair of runs."""
    latency_s = run["side_by_side_s"]
    parts = [f"{name} {1e3 * latency_s[name]:.3f} ms after {run[name]['total_s']:.1f} s" for name in SEARCHES]
    return f"{network}, seed {seed}: {', '.join(parts)}"


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(no_measurement)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--runs", type=int, default=1, help="seeds of each (%(default)s)")
    add("--again", action="store_true", help="run anew what is kept")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/no_measurement"), help="(%(default)s)")
    add("--out", type=Path, default=RESULTS, help="(%(default)s)")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, folder = start(), arguments.runs_in.resolve()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in arguments.networks}
    failures = []
    for seed, network in in_turns(arguments.networks, arguments.runs):
        settings = {"commit": commit_of(ROOT), "network": network, "seed": seed}
        try:
            run = kept_run(
                folder / f"{network}-{seed}.json",
                settings,
                lambda network=network, seed=seed: pair(network, seed, folder),  # type: ignore[misc]
                again=arguments.again,
            )
        except FAILED as error:
            failures.append({"network": network, "seed": seed, "error": str(error)[-300:]})
            print(f"{network}, seed {seed}: failed: {error}", flush=True)
            continue
        runs[network].append(run)
        print(describe(network, seed, run), flush=True)
    result = {
        "failures": failures,
        "networks": {name: {"runs": each} for name, each in runs.items() if each},
    }
    path = write_result("no_measurement", result, begun, this_machine(), results=arguments.out)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
