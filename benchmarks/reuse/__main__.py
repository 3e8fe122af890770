"""Entry of `python -m benchmarks.reuse`."""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretune.dataset.measure import WorkerPool
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import parse_target
from foretune.errors import UserError

from .. import reuse
from ..checkouts import commit_of
from ..common import (
    RESULTS,
    ROOT,
    argument_parser,
    in_turns,
    kept_run,
    machine_name,
    read_json,
    start,
    this_machine,
    write_result,
)
from ..networks.__main__ import cause_of
from ..networks.runs import DisturbedError
from . import operator_sets, second_shapes, single_pairs, whole_networks
from .methods import BACKEND, Searched, searched

if TYPE_CHECKING:
    from foretune.dataset.hardware import Hardware

WITH_PROGRAMS = ".json.xz"
"""Suffix of kept runs that hold programs."""

FAILED = (subprocess.SubprocessError, OSError, DisturbedError, UserError)


class Runs:
    """Runs of one part, each kept as soon as it is done."""

    def __init__(self, arguments: argparse.Namespace, earlier: Mapping[str, Any] | None = None) -> None:
        """`earlier` is the committed result of this machine that is extended, by default none."""
        self.earlier = earlier or {}
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
    found = {name: list(each["runs"]) for name, each in runs.earlier.get("networks", {}).items()}
    for network, seed in whole_networks.turns(names, arguments.runs or 3):
        name, known = f"{network}-{seed}", found.setdefault(network, [])
        if any(run["off"]["seed"] == seed for run in known) or not runs.in_time(name):
            continue
        run = runs.kept(
            name,
            {"network": network, "seed": seed, "overrides": arguments.overrides},
            lambda network=network, seed=seed: whole_networks.one_of_each(  # type: ignore[misc]
                network, seed, runs.folder, arguments.overrides
            ),
        )
        if run is not None:
            known.append(run)
            print(whole_networks.describe(network, seed, run), flush=True)
    return {"networks": {name: {"runs": each} for name, each in found.items() if each}}


def shapes(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `shapes`."""
    found = {name: list(each) for name, each in runs.earlier.get("shapes", {}).items()}
    for seed, network in in_turns(arguments.networks or list(second_shapes.CASES), arguments.runs or 1):
        name, known = f"{network}-{seed}", found.setdefault(network, [])
        if any(run["first"]["seed"] == seed for run in known) or not runs.in_time(name):
            continue
        run = runs.kept(
            name,
            {"network": network, "seed": seed, "overrides": arguments.overrides},
            partial(second_shapes.one_case, network, seed, arguments.overrides),
        )
        if run is not None:
            known.append(run)
            print(second_shapes.describe(network, seed, run), flush=True)
    return {"shapes": {name: each for name, each in found.items() if each}}


def pairs(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `pairs`: the first pair of each type, then the second, and so on."""
    target, trials = parse_target("llvm"), arguments.trials
    kinds = arguments.types or list(single_pairs.TYPES)
    listed = {kind: single_pairs.pairs_of(kind, arguments.pairs, target, trials) for kind in kinds}
    found = {kind: list(each) for kind, each in runs.earlier.get("types", {}).items()}

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
                name, known = f"{kind}-{number}", found.setdefault(kind, [])
                if number >= len(listed[kind]):
                    continue
                pair = listed[kind][number]
                is_known = any(single_pairs.is_of(run, pair) for run in known)
                if is_known or not runs.in_time(name):
                    continue
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
                    known.append(run)
                    print(single_pairs.describe(kind, run), flush=True)
    return {
        "trials": trials,
        "types": {kind: each for kind, each in found.items() if each},
        "estimates": single_pairs.estimates([run for each in found.values() for run in each]),
    }


def sets(arguments: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Part `sets`: all methods of a set, then the next set."""
    trials = arguments.trials
    found = {name: list(each) for name, each in runs.earlier.get("sets", {}).items()}
    for seed, name in in_turns(arguments.sets or list(operator_sets.SETS), arguments.runs or 1):
        settings, known = {"set": name, "trials": trials, "seed": seed}, found.setdefault(name, [])
        wanted = arguments.methods or operator_sets.methods_of(name)
        if seed < len(known) and known[seed].keys() >= set(wanted):
            continue
        methods: dict[str, Any] = {}
        for method in wanted:
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
            known[seed:] = [operator_sets.summary(methods, latency_s)]
    return {"trials": trials, "sets": {name: each for name, each in found.items() if each}}


PARTS = {"networks": networks, "shapes": shapes, "pairs": pairs, "sets": sets}

MINUTES = {"networks": 45.0, "shapes": 30.0, "pairs": 40.0, "sets": 30.0}
"""Minutes after which a part begins no further run, by default."""


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(reuse)
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
    add("--extend", action="store_true", help="add to the committed result of this machine")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/reuse"), help="(%(default)s)")
    add("--out", type=Path, default=RESULTS, help="(%(default)s)")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def earlier_result(arguments: argparse.Namespace, machine: Hardware) -> dict[str, Any]:
    """Result that `--extend` adds to, with the `commit` of its manifest; empty where there is none.

    Raises UserError for one of other trials or overrides.
    """
    folder = arguments.out / f"reuse_{arguments.part}" / machine_name(asdict(machine))
    if not arguments.extend or not (folder / "result.json").is_file():
        return {}
    result = read_json(folder / "result.json")
    for field in ("overrides", "trials"):
        mine = getattr(arguments, field)
        if field in result and result[field] != mine:
            raise UserError(
                f"--extend: {folder} has {field}={result[field]}, this run {mine}; give the same or leave "
                "--extend out"
            )
    return {**result, "commit": read_json(folder / "manifest.json")["commit"]}


def notes_of(earlier: Mapping[str, Any]) -> str:
    """Sentence of a manifest on the result that was extended."""
    return f"adds to the runs of commit {earlier['commit']}" if earlier else ""


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = Runs(arguments, earlier_result(arguments, machine))
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
        machine,
        notes=notes_of(runs.earlier),
        results=arguments.out,
    )
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
