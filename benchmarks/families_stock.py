"""FamilySeer's Algorithm 1 in stock MetaSchedule, against its own scheduler and cost model, on a GPU.

    python -m benchmarks.families_stock --target cuda --networks resnet18 --trials 32

Both searches measure the same number of programs of a network's tasks, in rounds of 16. A search cannot be
continued, so `--trials` must leave it time to end. Runs are kept in `--runs-in`.
"""

from __future__ import annotations

import argparse
import ast
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from .common import argument_parser, in_turns, start, this_machine
from .families.live import stock
from .kept_runs import KeptRuns, add_options

SCHEDULERS = ("stock, gradient", "stock, foresee")
ROUND = 16


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=["resnet18"], help="(%(default)s)")
    add("--target", default="cuda", help="(%(default)s)")
    add("--trials", type=int, default=32, help="programs a task on average (%(default)s)")
    add("--seeds", type=int, default=1, help="(%(default)s)")
    add("--inputs", type=ast.literal_eval, help="of a network given by an import path")
    add("--dry-run", action="store_true", help="latencies are invented: for a rehearsal without a GPU")
    add_options(parser, "outputs/benchmarks/families_stock", "no limit", extends=False)
    parsed = parser.parse_args(words)
    parsed.overrides = []
    return parsed


def main() -> None:
    given = arguments_of()
    begun, runs = start(), KeptRuns(given, math.inf)
    found: dict[str, list[dict[str, Any]]] = {}
    turns = [(network, seed) for seed, network in in_turns(given.networks, given.seeds)]
    for network, seed in turns:
        row: dict[str, Any] = {}
        for name in SCHEDULERS:
            label = f"{network.replace(':', '-')}-{seed}-{name.split()[-1]}"
            if not runs.in_time(label):
                continue
            settings = {"network": network, "target": given.target, "trials": given.trials, "round": ROUND}
            options = {"inputs": given.inputs, "trials": given.trials, "dry_run": given.dry_run}
            make = partial(stock, network, name, seed, given.target, round_size=ROUND, **options)
            if (run := runs.kept(label, settings, make)) is not None:
                row[name] = run
                print(f"{label}: {run['curve'][-1:]}", flush=True)
        found.setdefault(network, []).append(row)
    hardware = this_machine("llvm" if given.dry_run else given.target)
    result = {"trials": given.trials, "round": ROUND, "networks": found}
    runs.write("families_stock", result, begun, hardware)


if __name__ == "__main__":
    main()
