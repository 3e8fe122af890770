"""Entry of `python -m benchmarks.winograd`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from .. import winograd
from ..common import argument_parser, start, this_machine
from ..kept_runs import KeptRuns, add_options, earlier_result
from . import layers, networks

MINUTES = 60.0
"""Minutes after which no further run begins, by default."""


def arguments_of() -> argparse.Namespace:
    parser = argument_parser(winograd)
    add = parser.add_argument
    add("--layers", type=int, nargs="*", default=list(range(len(layers.LAYERS))), help="by number (all)")
    add("--networks", nargs="*", default=networks.NETWORKS, help="(%(default)s)")
    add("--turns", type=int, default=9, help="timings of each form of a network or layer (%(default)s)")
    add("--search", type=json.loads, default={}, help="fields of OneShotConfig for layers, as JSON")
    add_options(parser, "outputs/benchmarks/winograd", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune of the networks, after a --")
    return parser.parse_args()


def describe(name: str, forms: Mapping[str, Mapping[str, Any]]) -> str:
    """One line about the forms of a layer or network."""
    return f"{name}: " + ", ".join(f"{form} {1e3 * row['latency_s']:.3g} ms" for form, row in forms.items())


def main() -> None:
    arguments = arguments_of()
    begun, hardware, turns = start(), this_machine(), arguments.turns
    earlier = earlier_result(arguments, "winograd", hardware)
    runs = KeptRuns(arguments, MINUTES, earlier=earlier)
    found_layers = list(earlier.get("layers", []))
    for layer in (layers.LAYERS[number] for number in arguments.layers):
        name = "x".join(map(str, layer))
        if any(row["layer"] == list(layer) for row in found_layers) or not runs.in_time(name):
            continue
        forms = runs.kept(
            name,
            {"turns": turns, "layer": layer, "search": arguments.search},
            partial(layers.measure, layer, arguments.search, turns),
        )
        if forms is not None:
            found_layers.append({"layer": layer, "forms": forms})
            print(describe(name, forms), flush=True)
    found_networks = dict(earlier.get("networks", {}))
    for network in arguments.networks:
        if network in found_networks or not runs.in_time(network):
            continue
        run = runs.kept(
            network,
            {"turns": turns, "network": network, "overrides": arguments.overrides},
            partial(networks.measure, network, arguments.overrides, turns),
        )
        if run is not None:
            found_networks[network] = run
            print(describe(network, run["forms"]), flush=True)
    result = {
        "threads": hardware.cores,
        "search": arguments.search,
        "layers": found_layers,
        "networks": found_networks,
    }
    print(f"wrote {runs.write('winograd', result, begun, hardware)}")


if __name__ == "__main__":
    main()
