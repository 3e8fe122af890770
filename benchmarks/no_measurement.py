"""Networks tuned without a measurement, and by templates alone, compared with the default search.

    python -m benchmarks.no_measurement
    python -m benchmarks.no_measurement --networks squeezenet --runs 3

Each network is tuned by all three from an empty database and exported, and they are timed side by side. Runs
are kept in `outputs/benchmarks/no_measurement` until the commit changes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from .common import argument_parser, in_turns, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks import contest

NETWORKS = ("resnet18", "mobilenetv2", "bert_base", "squeezenet")
SEARCHES: Mapping[str, Sequence[str]] = {
    "default": (),
    "predicted": ("search=no_measurement",),
    "templates": ("search=templates", "checkpoint=null"),
}
"""Overrides of `foretune tune` by the name of the search in a result."""

MINUTES = 60.0
"""Minutes after which no further run begins, by default."""


def describe(network: str, seed: int, run: Mapping[str, Any]) -> str:
    """One line about a run of each search."""
    latency_s = run["side_by_side_s"]
    parts = [f"{name} {1e3 * latency_s[name]:.3f} ms after {run[name]['total_s']:.1f} s" for name in SEARCHES]
    return f"{network}, seed {seed}: {', '.join(parts)}"


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--runs", type=int, default=1, help="seeds of each (%(default)s)")
    add_options(parser, "outputs/benchmarks/no_measurement", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "no_measurement", machine))
    turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]
    found = contest.of_networks(runs, turns, SEARCHES, arguments.overrides, describe)
    runs.write("no_measurement", {"networks": found}, begun, machine)


if __name__ == "__main__":
    main()
