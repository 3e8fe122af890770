"""Whole networks tuned by `foretune tune`, each run with an empty database.

    python -m benchmarks.networks --set headline
    python -m benchmarks.networks --set unseen --runs 2 --minutes 120
    python -m benchmarks.networks --networks resnet18 --runs 5 -- search=high_quality
    python -m benchmarks.networks --set headline --against ../before

Networks take turns, so that a slow hour of the machine affects all of them. Runs are kept in
`outputs/benchmarks/networks` until the commit changes, so a stopped benchmark resumes. With `--against`, this
checkout and another one take turns on each network, and the networks they tuned are timed side by side.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..checkouts import cause_of, commit_of
from ..common import ROOT, argument_parser, in_turns, kept_run, start, this_machine, write_result
from .overlap import in_records
from .runs import DisturbedError, side_by_side, tune

SETS = {
    "headline": ("resnet18", "mobilenetv2", "bert_base"),
    "unseen": (
        *("resnet50", "squeezenet", "shufflenetv2", "mobilenetv3_large", "efficientnet_b0"),
        *("vit_base", "gpt2", "dcgan"),
    ),
}
"""The search's settings were chosen on tasks of the headline networks, and until 2026-11-25 on no task of the
unseen ones; since then, templates were written for layers of the unseen ones."""

FAILED = (subprocess.SubprocessError, OSError, DisturbedError)


def one_run(arguments: argparse.Namespace, network: str, seed: int) -> dict[str, Any]:
    """A run of this checkout, or an earlier run of the same commit."""
    settings = {"commit": commit_of(ROOT), "network": network, "seed": seed, "overrides": arguments.overrides}
    return kept_run(
        arguments.runs_in / "alone" / f"{network.replace(':', '-')}-{seed}.json",
        settings,
        lambda: tune(ROOT, network, seed, arguments.overrides),
        again=arguments.again,
    )


def one_pair(arguments: argparse.Namespace, network: str, seed: int) -> dict[str, Any]:
    """A run of each checkout, in a different order for each seed, and their networks timed side by side."""
    checkouts = {"this": ROOT, "other": arguments.against}
    commits = {name: commit_of(folder) for name, folder in checkouts.items()}
    folder = (arguments.runs_in / "against").resolve()

    def make() -> dict[str, Any]:
        folder.mkdir(parents=True, exist_ok=True)
        libraries = {name: folder / f"{network}-{seed}-{name}.so" for name in checkouts}
        try:
            runs = {
                name: tune(checkouts[name], network, seed, arguments.overrides, export=libraries[name])
                for name in (sorted(checkouts) if seed % 2 else sorted(checkouts, reverse=True))
            }
            return {**runs, "side_by_side_s": side_by_side(network, libraries)}
        finally:
            for library in libraries.values():
                library.unlink(missing_ok=True)

    settings = {"commits": commits, "network": network, "seed": seed, "overrides": arguments.overrides}
    return kept_run(folder / f"{network}-{seed}.json", settings, make, again=arguments.again)


def known_part(arguments: argparse.Namespace, network: str) -> dict[str, Any] | None:
    """Part of a network that is among the training records of models; see `in_records`.

    None for a network with an import path.
    """
    if ":" in network:
        return None
    path = arguments.runs_in / "in_records" / f"{network.replace(':', '-')}.json"
    return kept_run(path, {"commit": commit_of(ROOT)}, partial(in_records, network))


def describe(network: str, seed: int, run: dict[str, Any]) -> str:
    """One line about a run or a pair of runs."""
    parts = []
    for name in ("this", "other") if "side_by_side_s" in run else ("",):
        of = run[name] if name else run
        latencies = ", ".join(f"{form} {1e3 * latency:.3f} ms" for form, latency in of["latency_s"].items())
        beside = f", side by side {1e3 * run['side_by_side_s'][name]:.3f} ms" if name else ""
        parts.append(f"{name} {of['total_s']:.1f} s, {latencies}{beside}".strip())
    return f"{network}, seed {seed}: " + "; ".join(parts)


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--set", choices=SETS, default="headline", help="(%(default)s)")
    add("--networks", nargs="+", help="these instead, as the result networks_chosen")
    add("--runs", type=int, default=3, help="seeds of each (%(default)s)")
    add("--minutes", type=float, help="begin no run after so many")
    add("--against", type=Path, metavar="CHECKOUT", help="compare with this checkout")
    add("--again", action="store_true", help="run anew what is kept")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/networks"), help="(%(default)s)")
    add("--variant", default="", help="suffix of the result's folder, such as high_quality")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, began = start(), time.monotonic()
    chosen = arguments.networks or SETS[arguments.set]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    failures = []
    for seed, network in in_turns(chosen, arguments.runs):
        if arguments.minutes is not None and time.monotonic() - began > 60 * arguments.minutes:
            print(f"{arguments.minutes} minutes are over before {network}, seed {seed}", flush=True)
            break
        try:
            run = (one_pair if arguments.against else one_run)(arguments, network, seed)
        except FAILED as error:
            cause = cause_of(error)
            failures.append({"network": network, "seed": seed, "error": cause})
            print(f"{network}, seed {seed}: failed: {cause}", flush=True)
            continue
        runs[network].append(run)
        print(describe(network, seed, run), flush=True)
    result = {
        "overrides": arguments.overrides,
        "failures": failures,
        "networks": {
            name: {"in_records": known_part(arguments, name), "runs": each}
            for name, each in runs.items()
            if each
        },
    }
    of = "against" if arguments.against else "chosen" if arguments.networks else arguments.set
    write_result(
        f"networks_{of}",
        result,
        begun,
        this_machine(),
        variant=arguments.variant,
        checkouts={"this": ROOT, "other": arguments.against} if arguments.against else None,
        results=arguments.out,
    )


if __name__ == "__main__":
    main()
