"""Entry of `python -m benchmarks.padding`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from foretune.compiler.tvm_compat import parse_target
from foretune.inference import OneShotConfig

from .. import padding
from ..common import argument_parser, start, this_machine
from ..kept_runs import KeptRuns, add_options, earlier_result
from .layers import LAYERS, measure

MINUTES = 30.0
"""Minutes after which no further layer begins, by default."""


def describe(name: str, forms: Mapping[str, Mapping[str, Any]]) -> str:
    """One line about a layer."""
    return f"{name}: " + ", ".join(f"{form} {1e6 * one['latency_s']:.0f} us" for form, one in forms.items())


def main() -> None:
    parser = argument_parser(padding)
    add = parser.add_argument
    add("--target", default="llvm", help="target with bfloat16 (%(default)s)")
    add("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), help="(all)")
    add("--turns", type=int, default=15, help="turns of each form (%(default)s)")
    add_options(parser, "outputs/benchmarks/padding", str(MINUTES))
    parser.set_defaults(overrides=[])
    arguments = parser.parse_args()
    begun, target = start(), parse_target(arguments.target)
    machine = this_machine(arguments.target)
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "padding", machine))
    found = dict(runs.earlier.get("layers", {}))
    for name in arguments.layers:
        if name in found or not runs.in_time(name):
            continue
        settings = {"layer": LAYERS[name], "target": arguments.target, "turns": arguments.turns}
        make = partial(measure, LAYERS[name], target, OneShotConfig(), arguments.turns)
        if (forms := runs.kept(name, settings, make)) is not None:
            found[name] = forms
            print(describe(name, forms), flush=True)
    print(f"wrote {runs.write('padding', {'layers': found}, begun, machine)}")


if __name__ == "__main__":
    main()
