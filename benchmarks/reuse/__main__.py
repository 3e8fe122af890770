"""Entry of `python -m benchmarks.reuse`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import Executor, ExecutorConfig, MeasureConfig, make_executor
from tvm.target import Target

from .. import reuse
from ..common import argument_parser, in_turns, start, this_machine
from ..kept_runs import KeptRuns, add_options, earlier_result
from ..networks import contest
from . import operator_sets, plans, second_shapes, single_pairs, whole_networks
from .methods import BACKEND, SMALL_STOCK, STOCK, Searched, searched

WITH_PROGRAMS = ".json.xz"
"""Suffix of kept runs that hold programs."""


def networks(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """Part `networks`."""
    turns = whole_networks.turns(arguments.networks or whole_networks.NETWORKS, arguments.runs or 3)
    searches = {name: whole_networks.SEARCHES[name] for name in arguments.searches}
    return {"networks": contest.of_networks(runs, turns, searches, arguments.overrides)}


def shapes(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
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


def pairs(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """Part `pairs`: the first pair of each type, then the second, and so on."""
    target, trials = parse_target(arguments.target), arguments.trials
    kinds = arguments.types or list(single_pairs.TYPES)
    stock = SMALL_STOCK if arguments.dry_run else STOCK
    listed = {
        kind: single_pairs.pairs_of(kind, arguments.pairs, target, trials, arguments.drawn) for kind in kinds
    }
    found = {kind: list(each) for kind, each in runs.earlier.get("types", {}).items()}

    def backend(task: Task, pool: Executor) -> Searched | None:
        """The backend's search of an operator, which all pairs with it share."""
        run = runs.kept(
            f"backend-{task.workload_hash}",
            {"task": task.workload_hash, "trials": trials},
            lambda: asdict(searched(BACKEND, task, target, pool, trials=trials, seed=0, stock=stock)),
            WITH_PROGRAMS,
        )
        return None if run is None else Searched(**run)

    with pool_of(arguments, target) as pool:
        for number in range(arguments.from_pair, arguments.pairs):
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
                hashes = {"parent": pair.parent.workload_hash, "child": pair.child.workload_hash}
                options = {"trials": trials, "seed": 0, "timed": not arguments.dry_run, "stock": stock}
                make = partial(single_pairs.one_pair, pair, source, own, pool, target, **options)
                run = runs.kept(name, {**hashes, "trials": trials}, make)
                if run is not None:
                    known.append(run)
                    print(single_pairs.describe(kind, run), flush=True)
    return {
        "trials": trials,
        "types": {kind: each for kind, each in found.items() if each},
        "estimates": single_pairs.estimates([run for each in found.values() for run in each]),
    }


def pool_of(arguments: argparse.Namespace, target: Target) -> Executor:
    """Executor of this machine's device, or of a dry run."""
    kind = "dry_run" if arguments.dry_run else "local"
    return make_executor(ExecutorConfig(kind=kind), target, MeasureConfig())


def sets(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
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
            known[seed:] = [operator_sets.summary(methods, latency_s, trials)]
    return {"sets": {name: each for name, each in found.items() if each}}


def planned(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """Part `plans`."""
    found = dict(runs.earlier.get("plans", {}))
    for name in arguments.sets or operator_sets.SETS:
        if name in found or not runs.in_time(name):
            continue
        rows = runs.kept(f"{name}-plans", {"set": name}, lambda name=name: list(plans.plans(name)))
        if rows is not None:
            found[name] = rows
            print(f"{name}: {rows[0]['operators']} operators", flush=True)
    return {"plans": found}


PARTS = {"networks": networks, "shapes": shapes, "pairs": pairs, "plans": planned, "sets": sets}

MINUTES = {"networks": 45.0, "shapes": 30.0, "pairs": 40.0, "plans": 30.0, "sets": 30.0}
"""Minutes after which a part begins no further run, by default."""


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(reuse)
    add = parser.add_argument
    add("--part", choices=PARTS, required=True)
    add("--networks", nargs="+", help=f"of the part networks ({' '.join(whole_networks.NETWORKS)})")
    add(
        "--searches",
        nargs="+",
        choices=whole_networks.SEARCHES,
        default=list(whole_networks.BY_DEFAULT),
        help="of the part networks (%(default)s)",
    )
    add("--types", nargs="+", choices=single_pairs.TYPES, help="of the part pairs (all)")
    add("--pairs", type=int, default=8, help="of each type (%(default)s)")
    add(
        "--drawn",
        nargs="+",
        type=int,
        default=single_pairs.DRAWN,
        help="operators of a type that are drawn; the next number if there are too few pairs (%(default)s)",
    )
    add("--from-pair", type=int, default=0, help="number of the first one of each type (%(default)s)")
    add("--sets", nargs="+", choices=operator_sets.SETS, help="of the parts plans and sets (all)")
    add("--methods", nargs="+", choices=operator_sets.METHODS, help="of the part sets (all)")
    add("--trials", type=int, default=64, help="candidates that the backend measures of a task (%(default)s)")
    add("--target", default="llvm", help="of the parts pairs and networks (%(default)s)")
    add("--dry-run", action="store_true", help="of the part pairs: invent latencies, for a rehearsal")
    add("--runs", type=int, help="seeds of each network (3) or set (1)")
    add_options(parser, "outputs/benchmarks/reuse", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def runs_of(arguments: argparse.Namespace, earlier: Mapping[str, Any] | None = None) -> KeptRuns:
    """Runs of a part."""
    part = arguments.part
    return KeptRuns(arguments, MINUTES[part], folder=part, earlier=earlier)


def main() -> None:
    arguments = arguments_of()
    target = "llvm" if arguments.dry_run else arguments.target
    begun, machine, benchmark = start(), this_machine(target), f"reuse_{arguments.part}"
    runs = runs_of(arguments, earlier_result(arguments, benchmark, machine))
    result = {"part": arguments.part, **PARTS[arguments.part](arguments, runs)}
    print(f"wrote {runs.write(benchmark, result, begun, machine)}")


if __name__ == "__main__":
    main()
