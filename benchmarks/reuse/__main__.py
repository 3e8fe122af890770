"""Reuse of programs between tasks: its savings and its costs.

    python -m benchmarks.reuse --part networks
    python -m benchmarks.reuse --part networks --networks resnet18 --runs 3 --minutes 60
    python -m benchmarks.reuse --part shapes
    python -m benchmarks.reuse --part pairs --types C2D DEP --pairs 8
    python -m benchmarks.reuse --part pairs --extend --minutes 30
    python -m benchmarks.reuse --part plans
    python -m benchmarks.reuse --part sets --sets dcgan bert_base --trials 64

`networks` tunes whole networks by `foretune tune` in turns with `search.reuse=auto`, with `off`, and with a
control that measures equally few programs without reusing any; the tuned networks are timed side by side.
`shapes` tunes a second batch size or sequence length after the first, with one database. `pairs` are Figures
7 and 8 of ETO, `sets` are Figures 9 to 11: both time the fastest programs in turns. `plans` measures nothing:
it counts ETO's estimates for these sets. A result names the parts that did not fit into the time. Runs are
kept in `outputs/benchmarks/reuse` until the commit changes, or beyond it with `--keep`, so a benchmark that
was stopped or ran out of time resumes. `--extend` continues from the committed result of this machine. Pairs
and sets have a backend of 64 trials, which `--trials` changes; the paper uses 1,000.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import Executor, ExecutorConfig, MeasureConfig, make_executor
from foretune.inference.eto.published import PublishedTrees
from foretune.inference.reuse.config import BRIDGES
from foretune.inference.spaces.stock import StockSpace
from tvm.target import Target

from ..common import argument_parser, in_turns, start, this_machine
from ..kept_runs import KeptRuns, add_options, earlier_result
from ..networks import contest
from . import operator_sets, second_shapes, single_pairs
from .methods import BACKEND, SMALL_STOCK, STOCK, Searched, searched
from .operator_sets import tasks_of

TRIALS = (16, 32, 64, 256, 1000)
"""Programs that the backend measures for an operator; the paper uses the last number."""


def plans_of(name: str) -> Iterator[dict[str, Any]]:
    """Yields the plan of each number of trials and kind of bridges for a set.

    `backend` and `estimated` are the numbers of programs of the backend's searches alone and of the tree; an
    operator without reuse counts with the backend's number in both.
    """
    target = parse_target("llvm")
    tasks = tasks_of(name)
    own = {task.workload_hash for task in tasks}
    trees = PublishedTrees(target, StockSpace(None))
    for bridges in BRIDGES:
        for trials in TRIALS:
            selected = trees.least_cost(tasks, trials=trials, bridges=bridges)
            tree = selected.selection.tree({}, {})
            unread = len(own - tree.parents.keys())
            yield {
                "bridges": bridges,
                "trials": trials,
                "operators": len(tasks),
                "searched": unread + len(own.intersection(tree.searched)),
                "bridges_taken": len(tree.parents.keys() - own),
                "backend": trials * len(tasks),
                "estimated": tree.cost + trials * unread,
            }


NETWORKS = ("resnet18", "mobilenetv2", "bert_base", "densenet121")
"""Networks of the part by default; DenseNet-121 has over 90 tasks."""

LARGE = ("densenet121",)
"""Networks whose second and further runs come last."""

_TAKING_OVER = ("search.reuse=auto", "search.auto.starts=4")

SEARCHES: Mapping[str, tuple[str, ...]] = {
    "off": ("search.reuse=off",),
    "auto": _TAKING_OVER,
    "fewer": ("search.reuse=auto", "search.auto.starts=0"),
    "short": (*_TAKING_OVER, "search.auto.source_rounds=3", "search.auto.depthwise_rounds=1"),
    "shared": (*_TAKING_OVER, "search.share_surrogate=true"),
    "few_heavy": (*_TAKING_OVER, "search.auto.heavy_share=0.2"),
    "paper": ("search.reuse=paper", "search.eto.trials=64"),
    "two_rounds": (*_TAKING_OVER, "search.auto.depthwise_rounds=2"),
}
"""Overrides of `foretune tune` by the name of the search in a result.

All but `fewer` reuse up to four programs, like a search without templates; `fewer` reuses none, like a search
with templates. `short` gives sources and depthwise convolutions fewer rounds, `shared` also shares the
surrogate among the tasks of a family, `paper` is ETO as published with a backend of 64 trials, `few_heavy`
gives all rounds to tasks of a fifth alone, and `two_rounds` gives depthwise convolutions two.
"""

BY_DEFAULT = ("off", "auto", "fewer")
"""Searches of a run by default."""


def turns_of(networks: Sequence[str], runs: int) -> list[tuple[str, int]]:
    """Networks with their seeds in the order of the runs: one of each first, further ones of LARGE last."""
    rounds = [(network, seed) for seed in range(runs) for network in networks]
    return sorted(rounds, key=lambda one: one[1] > 0 and one[0] in LARGE)


WITH_PROGRAMS = ".json.xz"
"""Suffix of kept runs that hold programs."""


def networks(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """Part `networks`."""
    turns = turns_of(arguments.networks or NETWORKS, arguments.runs or 3)
    searches = {name: SEARCHES[name] for name in arguments.searches}
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

    runs.progress.expect(3 * sum(map(len, listed.values())))  # two searches by the backend for each pair
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
    turns = list(in_turns(arguments.sets or list(operator_sets.SETS), arguments.runs or 1))
    methods_of = {name: arguments.methods or operator_sets.methods_of(name) for _, name in turns}
    runs.progress.expect(sum(len(methods_of[name]) + 1 for _, name in turns))
    for seed, name in turns:
        settings, known = {"set": name, "trials": trials, "seed": seed}, found.setdefault(name, [])
        wanted = methods_of[name]
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
        rows = runs.kept(f"{name}-plans", {"set": name}, lambda name=name: list(plans_of(name)))
        if rows is not None:
            found[name] = rows
            print(f"{name}: {rows[0]['operators']} operators", flush=True)
    return {"plans": found}


PARTS = {"networks": networks, "shapes": shapes, "pairs": pairs, "plans": planned, "sets": sets}

MINUTES = {"networks": 45.0, "shapes": 30.0, "pairs": 40.0, "plans": 30.0, "sets": 30.0}
"""Minutes after which a part begins no further run, by default."""


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--part", choices=PARTS, required=True)
    add("--networks", nargs="+", help=f"of the part networks ({' '.join(NETWORKS)})")
    add(
        "--searches",
        nargs="+",
        choices=SEARCHES,
        default=list(BY_DEFAULT),
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
    runs.write(benchmark, result, begun, machine)


if __name__ == "__main__":
    main()
