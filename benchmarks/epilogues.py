"""Epilogue fusion on and off, by network and data type (Bolt, section 3.1 and Figure 9).

    python -m benchmarks.epilogues
    python -m benchmarks.epilogues --networks resnet18 --types float32 int8 --runs 1

Each network is tuned by default in each data type, once with the epilogues of products fused into them, and
once with biases, activations and residuals in functions of their own, which TVM fuses with each other. All
forms of a network are timed side by side. Winograd's algorithm and attention in one function are off in both,
so that nothing else differs. A network takes about eight minutes per run. Runs are kept in `--runs-in` until
the commit changes, or beyond it with `--keep`; the same command continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from .common import argument_parser, in_turns, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks import contest

NETWORKS = ("resnet18", "mobilenetv2", "bert_base")
TYPES = ("float32", "bfloat16", "int8")

SEPARATE = "separate"
"""Second word of the form without epilogues, after its data type."""

EQUAL = ("lowering.winograd=off", "lowering.attention=off")

MINUTES = 120.0
"""Minutes after which no further run begins, by default."""


def searches(types: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Overrides of `foretune tune` for each form."""
    found = {}
    for dtype in types:
        words = (*EQUAL, f"lowering.dtype={dtype}")
        found[dtype] = words
        found[f"{dtype} {SEPARATE}"] = (*words, "lowering.epilogues=false")
    return found


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--types", nargs="+", choices=TYPES, default=TYPES, help="(%(default)s)")
    add("--runs", type=int, default=3, help="seeds of each network (%(default)s)")
    add_options(parser, "outputs/benchmarks/epilogues", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for every foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "epilogues", machine))
    turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]
    found = contest.of_networks(runs, turns, searches(arguments.types), arguments.overrides)
    runs.write("epilogues", {"networks": found}, begun, machine)


if __name__ == "__main__":
    main()
