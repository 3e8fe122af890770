"""Fasor's search compared with the default one, after Tables 4 to 7 and Figure 8 of the paper.

    python -m benchmarks.fasor --networks resnet18 mobilenetv2 bert_base
    python -m benchmarks.fasor --searches default pretuned --runs 3 --extend
    python -m benchmarks.fasor --move --keep --networks resnet18 mobilenetv2 bert_base --runs 3 --minutes 600

Each network is tuned by each search in turns, from an empty database, and the tuned networks are timed side
by side. `stock` is MetaSchedule's own search with 64 programs per task, which takes 5 to 40 minutes per
network.

Without `--move`, the searches use the shipped models, which know many devices, and search the whole space.
`without_pretuned`, `random` and `evolutionary` exchange one part of Fasor's high-efficiency mode; `pretuned`,
`sub_space_6` and `dqn` are parts of Fasor inside the default search.

With `--move`, this machine is a new device, as in the paper. Models, explorer and pretuned schedules are made
of the records that other machines measured, which takes about two hours once and may run on a busy machine.
For each run, the machine then measures `--k` tasks of different Spearman clusters, fine-tunes both models
with them, and searches in the sub-space from pretuned starts with the deep Q-network, in both modes. Further
searches exchange one part each (Figure 8), and `ours` adds templates. `--searches` names some of them, by
default all but `stock`.

Runs are kept in `--runs-in` until the commit changes, or beyond it with `--keep`, so a benchmark that was
stopped or ran out of time resumes. `--extend` continues from the committed result of this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from foretune.dataset.hardware import Hardware

from ..common import argument_parser, in_turns, start, this_machine
from ..kept_runs import KeptRuns, add_options, earlier_result
from ..networks import contest
from .move import Move, go
from .searches import MOVED, SEARCHES

NETWORKS = (
    *("resnet18", "mobilenetv2", "bert_base", "alexnet", "efficientnet_b0", "vgg16"),
    *("mobilenetv1", "resnet50", "mnasnet", "mobilebert"),
)
"""Networks of Tables 4 to 7, and MobileNetV1."""

MINUTES = 45.0
"""Minutes after which no further run begins, by default."""


def networks(arguments: argparse.Namespace, runs: KeptRuns, here: Hardware) -> dict[str, Any]:
    """A run of each search and network, by network; with `--move`, after the move and with its costs."""
    move = Move(runs.folder / "move", arguments.k, arguments.records, arguments.epochs)
    known = MOVED if arguments.move else SEARCHES
    turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]

    def searches(seed: int) -> Mapping[str, Sequence[str]]:
        return {name: move.placed(known[name], seed) for name in arguments.searches}

    found: dict[str, Any] = {}
    if arguments.move:
        costs = go(move, runs, here, arguments.runs)
        found = {"k": arguments.k, "move": costs}
        turns = turns if costs is not None else []
    return {**found, "networks": contest.of_networks(runs, turns, searches, arguments.overrides)}


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--searches", nargs="+", help="with default (all; with --move, all but stock)")
    add("--runs", type=int, default=1, help="seeds of each network (%(default)s)")
    moving = parser.add_argument_group("a new device").add_argument
    moving("--move", action="store_true", help="adapt models of other devices to this one first")
    moving("--k", type=int, default=10, help="tasks that are measured (%(default)s)")
    moving("--records", type=int, default=20, help="programs of each of them (%(default)s)")
    moving("--epochs", type=int, default=12, help="of the cost model of other devices (%(default)s)")
    add_options(parser, "outputs/benchmarks/fasor", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for every foretune tune, after a --")
    arguments = parser.parse_args(words)
    known = MOVED if arguments.move else SEARCHES
    chosen = arguments.searches or [name for name in known if not (arguments.move and name == "stock")]
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"--searches {unknown[0]}: choose from {', '.join(known)}")
    arguments.searches = list(dict.fromkeys(["default", *chosen]))
    arguments.variant = "moved" if arguments.move else ""
    return arguments


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "fasor", machine))
    found = networks(arguments, runs, machine)
    if not found["networks"]:
        left = ", ".join([*(one["run"] for one in runs.failures), *runs.left_out])
        print(f"no network is tuned yet, so that nothing is written: {left} is left")
        return
    runs.write("fasor", found, begun, machine)


if __name__ == "__main__":
    main()
