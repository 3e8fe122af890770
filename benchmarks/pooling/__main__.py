"""Averages of channels in depthwise convolutions, a partial reduction as their epilogue (Bolt, section 3.1).

    python -m benchmarks.pooling

The layers come from EfficientNet-B0 and MobileNetV3 with squeeze and excitation. Contestants are the
convolution alone, the convolution followed by a separate average function, and both in one function. All
convolutions use the most promising template; the average is the fastest of 32 random programs. They take
turns. The benchmark lasts two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretune.compiler.tvm_compat import parse_target

from ..common import argument_parser, start, this_machine, write_result
from .layers import LAYERS, measured, name_of


def main() -> None:
    parser = argument_parser(__name__)
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
    write_result("pooling", {"layers": rows}, begun, hardware, results=arguments.out)


def describe(row: Mapping[str, Any]) -> str:
    """One line about a layer."""
    parts = [f"{form} {1e6 * seconds:.1f} us" for form, seconds in row["latency_s"].items()]
    return f"{row['network']} {row['layer']}: {', '.join(parts)}"


if __name__ == "__main__":
    main()
