"""Networks tuned by MetaSchedule with up to 1,000 programs a task, compared with the default search.

    nohup python -m benchmarks.stock_networks --parts search --minutes 240 > stock.log &
    python -m benchmarks.stock_networks --parts contest --minutes 30

The part `search` runs MetaSchedule's EvolutionarySearch and XGBModel with their defaults on each task of the
networks, with a model for each task. Foretune's workers measure the programs, because LocalBuilder and
LocalRunner take several times as long (`benchmarks.measurement_throughput`). The `--own-tasks` largest tasks
are searched once more, with LocalBuilder and LocalRunner. All tasks get the first number of `--trials`, then
all get the second, and so on. Each session thus completes a part of the curve.

Stop the search at any time: by Ctrl-C, `kill`, `--minutes`, or the end of the machine. The same command
continues within the task and measures no program twice. A killed process loses at most the 16 programs in
measurement. The programs are in `--runs-in`, as databases of MetaSchedule. After each task, the search also
writes them to `--programs`, a compressed file for each network and kind of measurement. Commit these files,
and another session continues from them.

The part `contest` compiles each network with the best of the first programs of each task, for each number of
`--trials` that all tasks have reached, and compares the outputs with PyTorch's. Then the default search tunes
the network with `--runs` seeds. Each result is timed side by side with all of MetaSchedule's networks.

By estimate, 1,000 programs of a convolution take 10 to 20 minutes, or 30 with MetaSchedule's own measurement.
ResNet-18 has 22 tasks and MobileNetV2 34, and some of them have few programs. Together they take about 9
hours, and the largest tasks with their own measurement 4 more. The first 64 programs of all tasks take about
an hour. In the contest, each of MetaSchedule's networks takes a minute, once, and each seed 3 minutes.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.host.locks import LockedError, locked
from foretune.dataset.hardware import Hardware
from foretune.errors import UserError, exits_cleanly
from foretune.signals import signals_interrupt

from ..common import argument_parser, in_turns, machine_name, start, this_machine
from ..kept_runs import KeptRuns, add_options
from ..networks import contest
from .arms import Arm, Stock, Subject, stocks

NETWORKS = ("resnet18", "mobilenetv2")
TRIALS = (64, 200, 500, 1000)
OWN_TASKS = 4
SEED = 0
"""Seed of MetaSchedule's searches."""

PARTS = ("search", "contest")


def arms_of(given: argparse.Namespace, network: str, folder: Path, here: Hardware) -> tuple[Arm, Arm]:
    """Searches of all tasks measured by Foretune, and of the largest ones measured by MetaSchedule."""
    subject = Subject(network)
    device = {"target": str(subject.target), "machine": here.hardware_id, "tvm": tvm.__version__}
    settings = {"network": subject.label, "seed": SEED, **device}

    def opened(measured_by: str, tasks: int | None) -> Arm:
        name = f"{subject.label}-{measured_by}"
        compact = given.programs / f"{name}.json.xz"
        return Arm.opened(subject, measured_by, subject.tasks[:tasks], folder / name, compact, settings)

    return opened("foretune", None), opened("stock", given.own_tasks)


def search(arms: Sequence[Arm], trials: Sequence[int], ends: float) -> None:
    """Searches all tasks up to each number of programs in turn, until `ends` of `time.monotonic`."""
    for each in trials:
        for arm in arms:
            arm.search(each, ends, seed=SEED)


def built(runs: KeptRuns, subject: Subject, stock: Stock) -> tuple[Path, dict[str, Any]] | None:
    """Library and facts of a network with MetaSchedule's programs; None if it failed or found no time."""
    name = f"{subject.label}-{stock.name}".replace(", ", "-").replace(" ", "_")
    path = runs.folder / "libraries" / f"{name}.so"
    if not runs.in_time(name):
        return None
    check = runs.kept(name, {"programs": stock.best}, partial(subject.build, stock.best, path), written=path)
    return None if check is None else (path, {**stock.facts, **check})


def compared(
    given: argparse.Namespace, runs: KeptRuns, arms: Mapping[str, tuple[Arm, Arm]]
) -> dict[str, Any]:
    """Runs of the default search by network, each timed with the networks of MetaSchedule."""
    libraries: dict[str, dict[str, tuple[Path, dict[str, Any]]]] = {}
    for network, (every, own) in arms.items():
        found = {one.name: built(runs, every.subject, one) for one in stocks(every, own, given.trials)}
        libraries[network] = {name: one for name, one in found.items() if one is not None}
    rows: dict[str, Any] = {network: [] for network in arms if libraries[network]}
    for seed, network in in_turns(list(rows), given.runs):
        label = f"{arms[network][0].subject.label}-{seed}"
        if not runs.in_time(label):
            continue
        paths = {name: path for name, (path, _) in libraries[network].items()}
        facts = {name: {"seed": seed, **of} for name, (_, of) in libraries[network].items()}
        one = partial(
            contest.one_of_each, network, seed, runs.folder, {"default": ()}, given.overrides, others=paths
        )
        settings = {"network": network, "seed": seed, "overrides": given.overrides, "stock": facts}
        if (run := runs.kept(label, settings, one)) is not None:
            rows[network].append({**run, **facts})
            print(contest.describe(network, seed, rows[network][-1]), flush=True)
    return {network: {"runs": each} for network, each in rows.items() if each}


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="(%(default)s)")
    add("--trials", nargs="+", type=int, default=TRIALS, help="programs a task (%(default)s)")
    add("--own-tasks", type=int, default=OWN_TASKS, help="largest tasks, also measured by MetaSchedule")
    add("--runs", type=int, default=3, help="seeds of the default search (%(default)s)")
    add("--programs", type=Path, help="folder of the compressed programs (below the result)")
    add_options(parser, "outputs/benchmarks/stock_networks", "no limit", extends=False)
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    given = parser.parse_args(words)
    given.trials = sorted(set(given.trials))
    if given.trials[0] < 1:
        parser.error(f"--trials {given.trials[0]}: must be at least 1")
    if given.own_tasks < 0:
        parser.error(f"--own-tasks {given.own_tasks}: must be at least 0")
    return given


@exits_cleanly()
def main() -> None:
    given = arguments_of()
    begun, here = start(), this_machine()
    given.programs = given.programs or given.out / "stock_networks" / machine_name(vars(here)) / "programs"
    runs = KeptRuns(given, math.inf)
    runs.folder.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + runs.left_s
    with signals_interrupt():
        arms = {network: arms_of(given, network, runs.folder, here) for network in given.networks}
        if "search" in given.parts:
            try:
                with locked(runs.folder / ".lock"):
                    search([arm for pair in arms.values() for arm in pair], given.trials, ends)
            except LockedError as error:
                raise UserError(f"--runs-in {runs.folder}: {error} searches there; stop it first") from error
        found = compared(given, runs, arms) if "contest" in given.parts else {}
    if found:
        runs.write("stock_networks", {"trials": given.trials, "networks": found}, begun, here)


if __name__ == "__main__":
    main()
