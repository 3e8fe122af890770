"""Entry of `python -m benchmarks.reuse`."""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from foretune.dataset.measure import WorkerPool
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import parse_target
from foretune.errors import UserError

from .. import reuse
from ..checkouts import commit_of
from ..common import RESULTS, ROOT, in_turns, kept_run, start, this_machine, write_result
from ..networks.__main__ import cause_of
from ..networks.runs import DisturbedError
from . import operator_sets, second_shapes, single_pairs, whole_networks
from .methods import BACKEND, Searched, searched

WITH_PROGRAMS = ".json.xz"
"""Suffix of kept runs that hold programs."""

FAILED = (subprocess.SubprocessError, OSError, DisturbedError, UserError)


class Runs:
    """Runs of one part, each kept as soon as it is done."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._began = time.monotonic()
        self._minutes = MINUTES[arguments.part] if arguments.minutes is None else arguments.minutes
        self.folder = (arguments.runs_in / arguments.part).resolve()
        self.failures: list[dict[str, Any]] = []
        self.left_out: list[str] = []

    def in_time(self, name: str) -> bool:
        """Whether another run may begin; one that may not is noted."""
        if time.monotonic() - self._began <= 60 * self._minutes:
            return True
        self.left_out.append(name)
        return False

    def kept(
        self, name: str, settings: dict[str, Any], make: Callable[[], Any], suffix: str = ".json"
    ) -> Any:
        """The kept run of this name and these settings, or a new one; None where it failed."""
        settings = {"commit": commit_of(ROOT), **settings}
        free = ("commit",) if self._arguments.keep else ()
        try:
            path = self.folder / f"{name}{suffix}"
            return kept_run(path, settings, make, again=self._arguments.again, free=free)
        except FAILED as error:
            cause = cause_of(error)
            self.failures.append({"run": name, "error": cause})
            print(f"{name}: failed: {cause}", flush=True)
            return None


def networks(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `networks`."""
    names = arguments.networks or whole_networks.NETWORKS
    found: dict[str, list[Any]] = {name: [] for name in names}
    for network, seed in whole_networks.turns(names, arguments.runs or 3):
        name = f"{network}-{seed}"
        if not runs.in_time(name):
            continue
        run = runs.kept(
            name,
            {"network": network, "seed": seed, "overrides": arguments.overrides},
            lambda network=network, seed=seed: whole_networks.one_of_each(  # type: ignore[misc]
                network, seed, runs.folder, arguments.overrides
            ),
        )
        if run is not None:
            found[network].append(run)
            print(whole_networks.describe(network, seed, run), flush=True)
    return {"networks": {name: {"runs": each} for name, each in found.items() if each}}


def shapes(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `shapes`."""
    found: dict[str, list[Any]] = {}
    for seed, network in in_turns(arguments.networks or list(second_shapes.CASES), arguments.runs or 1):
        name = f"{network}-{seed}"
        if not runs.in_time(name):
            continue
        run = runs.kept(
            name,
            {"network": network, "seed": seed, "overrides": arguments.overrides},
            partial(second_shapes.one_case, network, seed, arguments.overrides),
        )
        if run is not None:
            found.setdefault(network, []).append(run)
            print(second_shapes.describe(network, seed, run), flush=True)
    return {"shapes": found}


def pairs(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `pairs`: the first pair of each type, then the second, and so on."""
    target, trials = parse_target("llvm"), arguments.trials
    kinds = arguments.types or list(single_pairs.TYPES)
    listed = {kind: single_pairs.pairs_of(kind, arguments.pairs, target, trials) for kind in kinds}
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}

    def backend(task: Task, pool: WorkerPool) -> Searched | None:
        """The backend's search of an operator, which all pairs with it share."""
        run = runs.kept(
            f"backend-{task.workload_hash}",
            {"task": task.workload_hash, "trials": trials},
            lambda: asdict(searched(BACKEND, task, target, pool, trials=trials, seed=0)),
            WITH_PROGRAMS,
        )
        return None if run is None else Searched(**run)

    with WorkerPool(target) as pool:
        for number in range(arguments.pairs):
            for kind in kinds:
                name = f"{kind}-{number}"
                if number >= len(listed[kind]) or not runs.in_time(name):
                    continue
                pair = listed[kind][number]
                source, own = backend(pair.parent, pool), backend(pair.child, pool)
                if source is None or own is None:
                    continue
                run = runs.kept(
                    name,
                    {
                        "parent": pair.parent.workload_hash,
                        "child": pair.child.workload_hash,
                        "trials": trials,
                    },
                    partial(single_pairs.one_pair, pair, source, own, pool, target, trials=trials, seed=0),
                )
                if run is not None:
                    found[kind].append(run)
                    print(single_pairs.describe(kind, run), flush=True)
    return {
        "trials": trials,
        "types": {kind: each for kind, each in found.items() if each},
        "estimates": single_pairs.estimates([run for each in found.values() for run in each]),
    }


def sets(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `sets`: all methods of a set, then the next set."""
    trials = arguments.trials
    found: dict[str, list[Any]] = {}
    for seed, name in in_turns(arguments.sets or list(operator_sets.SETS), arguments.runs or 1):
        settings = {"set": name, "trials": trials, "seed": seed}
        methods: dict[str, Any] = {}
        for method in arguments.methods or operator_sets.methods_of(name):
            run_name = f"{name}-{method}-{seed}"
            if not runs.in_time(run_name):
                continue
            run = runs.kept(
                run_name,
                {**settings, "method": method},
                partial(operator_sets.one_run, name, method, trials, seed),
                WITH_PROGRAMS,
            )
            if run is not None:
                methods[method] = run
                print(operator_sets.describe(name, method, run), flush=True)
        if not methods:
            continue
        latency_s = runs.kept(
            f"{name}-timed-{seed}",
            {**settings, "methods": list(methods)},
            partial(operator_sets.timed, name, methods),
        )
        if latency_s is not None:
            print(f"{name}: " + ", ".join(f"{m} {1e3 * s:.3f} ms" for m, s in latency_s.items()), flush=True)
            found.setdefault(name, []).append(operator_sets.summary(methods, latency_s))
    return {"trials": trials, "sets": found}


PARTS = {"networks": networks, "shapes": shapes, "pairs": pairs, "sets": sets}

MINUTES = {"networks": 45.0, "shapes": 30.0, "pairs": 40.0, "sets": 30.0}
"""Minutes after which a part begins no further run, by default."""


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reuse",
        description=reuse.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = parser.add_argument
    add("--part", choices=PARTS, required=True)
    add("--networks", nargs="+", help=f"of the part networks ({' '.join(whole_networks.NETWORKS)})")
    add("--types", nargs="+", choices=single_pairs.TYPES, help="of the part pairs (all)")
    add("--pairs", type=int, default=8, help="of each type (%(default)s)")
    add("--sets", nargs="+", choices=operator_sets.SETS, help="of the part sets (all)")
    add("--methods", nargs="+", choices=operator_sets.METHODS, help="of the part sets (all)")
    add("--trials", type=int, default=64, help="candidates that the backend measures of a task (%(default)s)")
    add("--runs", type=int, help="seeds of each network (3) or set (1)")
    add("--minutes", type=float, help=f"begin no run after so many ({MINUTES})")
    add("--again", action="store_true", help="run anew what is kept")
    add("--keep", action="store_true", help="keep runs of earlier commits too")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/reuse"), help="(%(default)s)")
    add("--out", type=Path, default=RESULTS, help="(%(default)s)")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, runs = start(), Runs(arguments)
    result = PARTS[arguments.part](arguments, runs)
    if runs.left_out:
        print(f"no time for {', '.join(runs.left_out)}; the same command goes on with them", flush=True)
    path = write_result(
        f"reuse_{arguments.part}",
        {
            "part": arguments.part,
            "overrides": arguments.overrides,
            "failures": runs.failures,
            "left_out": runs.left_out,
            **result,
        },
        begun,
        this_machine(),
        results=arguments.out,
    )
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
