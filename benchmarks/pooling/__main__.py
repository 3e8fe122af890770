"""Entry of `python -m benchmarks.pooling`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretune.compiler.tvm_compat import parse_target

from .. import pooling
from ..common import RESULTS, argument_parser, start, this_machine, write_result
from .layers import LAYERS, measured, name_of


def main() -> None:
    parser = argument_parser(pooling)
    parser.add_argument("--target", default="llvm", help="target (%(default)s)")
    parser.add_argument("--turns", type=int, default=9, help="turns of each form (%(default)s)")
    arguments = parser.parse_args()
    begun, target = start(), parse_target(arguments.target)
    rows = []
    for network, layers in LAYERS.items():
        for layer in layers:
            rows.append(
                {"network": network, "layer": name_of(layer), **measured(layer, target, arguments.turns)}
            )
            print(describe(rows[-1]), flush=True)
    hardware = this_machine(arguments.target)
    print(f"wrote {write_result('pooling', {'layers': rows}, begun, hardware, results=RESULTS)}")


def describe(row: Mapping[str, Any]) -> str:
    """One line about a layer."""
    parts = [f"{form} {1e6 * seconds:.1f} us" for form, seconds in row["latency_s"].items()]
    return f"{row['network']} {row['layer']}: {', '.join(parts)}"


if __name__ == "__main__":
    main()
