"""Fasor's search compared with the default one, after Tables 4 to 7 and Figure 8 of the paper.

    python -m benchmarks.fasor --networks resnet18 mobilenetv2 bert_base
    python -m benchmarks.fasor --searches default pretuned --runs 3 --extend

Each network is tuned by each search in turns, from an empty database, and the tuned networks are timed side
by side. `stock` is MetaSchedule's own search with 64 programs per task, which takes 5 to 25 minutes per
network. Fasor's high-efficiency mode measures nothing. `without_pretuned`, `random` and `evolutionary` are
this mode with one part exchanged (Figure 8); `pretuned`, `sub_space_6` and `dqn` are parts of Fasor inside
the default search. Runs are kept in `outputs/benchmarks/fasor` until the commit changes, or beyond it with
`--keep`. `--extend` continues from the committed result of this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from .common import argument_parser, in_turns, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks import contest

NETWORKS = (
    *("resnet18", "mobilenetv2", "bert_base", "alexnet", "efficientnet_b0", "vgg16"),
    *("mobilenetv1", "resnet50", "mnasnet", "mobilebert"),
)
"""Networks of Tables 4 to 7, and MobileNetV1."""

PUBLISHED = ("search=fasor", "search.templates=0")
"""Overrides of the high-efficiency mode without templates."""

EVOLVED = (*PUBLISHED, "search/strategy=evolutionary")
"""Overrides that replace the deep Q-network's programs with 64 programs of MetaSchedule's evolution."""

SEARCHES: Mapping[str, Sequence[str]] = {
    "default": (),
    "stock": (contest.STOCK, "64"),
    "fasor": PUBLISHED,
    "fasor_high_quality": (
        *("search=fasor_high_quality", "search.templates=0", "search.reuse=off", "search.rounds=12"),
        *("search.top_k=96", "search.extra_rounds=16", "search.stop.expected_improvement=0.001"),
        "search.stop.patience=4",
    ),
    "fasor_templates": ("search=fasor",),
    "high_quality_templates": ("search=fasor_high_quality",),
    "without_pretuned": (*PUBLISHED, "search.starts=known"),
    "random": (*EVOLVED, "search.strategy.population_size=64", "search.strategy.generations=0"),
    "evolutionary": (*EVOLVED, "search.strategy.population_size=32", "search.strategy.generations=1"),
    "pretuned": ("search.starts=pretuned",),
    "sub_space_6": ("search.space=sub_space", "search.sub_space.primitives=6"),
    "dqn": ("search/strategy=dqn",),
    "high_efficiency": ("search=high_efficiency",),
}
"""Overrides of `foretune tune` by the name of the search in a result."""

MINUTES = 45.0
"""Minutes after which no further run begins, by default."""


def networks(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """A run of each search and network, by network."""
    searches = {name: SEARCHES[name] for name in arguments.searches}
    turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]
    return {"networks": contest.of_networks(runs, turns, searches, arguments.overrides)}


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES), help="with default (all)")
    add("--runs", type=int, default=1, help="seeds of each network (%(default)s)")
    add_options(parser, "outputs/benchmarks/fasor", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for every foretune tune, after a --")
    arguments = parser.parse_args(words)
    arguments.searches = list(dict.fromkeys(["default", *arguments.searches]))
    return arguments


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "fasor", machine))
    runs.write("fasor", networks(arguments, runs), begun, machine)


if __name__ == "__main__":
    main()
