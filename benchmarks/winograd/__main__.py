"""Entry of `python -m benchmarks.winograd`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from .. import winograd
from ..checkouts import commit_of
from ..common import RESULTS, ROOT, argument_parser, kept_run, start, this_machine, write_result
from . import layers, networks


def arguments_of() -> argparse.Namespace:
    parser = argument_parser(winograd)
    add = parser.add_argument
    add("--layers", type=int, nargs="*", default=list(range(len(layers.LAYERS))), help="by number (all)")
    add("--networks", nargs="*", default=networks.NETWORKS, help="(%(default)s)")
    add("--turns", type=int, default=9, help="timings of each form of a network or layer (%(default)s)")
    add("--search", type=json.loads, default={}, help="fields of OneShotConfig for layers, as JSON")
    add("--again", action="store_true", help="run anew what is kept")
    add("--keep", action="store_true", help="keep runs of earlier commits too")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/winograd"), help="(%(default)s)")
    add("--out", type=Path, default=RESULTS, help="(%(default)s)")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune of the networks, after a --")
    return parser.parse_args()


def main() -> None:
    arguments = arguments_of()
    begun, began, hardware = start(), time.monotonic(), this_machine()
    common = {"commit": commit_of(ROOT), "turns": arguments.turns}
    kept = {"again": arguments.again, "free": ("commit",) if arguments.keep else ()}

    def told(name: str, run: dict[str, Any]) -> dict[str, Any]:
        forms = run.get("forms", run)
        latencies = ", ".join(f"{form} {1e3 * row['latency_s']:.3g} ms" for form, row in forms.items())
        print(f"[{(time.monotonic() - began) / 60:.1f} min] {name}: {latencies}", flush=True)
        return run

    found_layers = []
    for layer in (layers.LAYERS[number] for number in arguments.layers):
        name = "x".join(map(str, layer))
        run = kept_run(
            arguments.runs_in / f"{name}.json",
            {**common, "layer": layer, "search": arguments.search},
            lambda layer=layer: layers.measure(layer, arguments.search, arguments.turns),
            **kept,
        )
        found_layers.append({"layer": layer, "forms": told(name, run)})
    found_networks = {}
    for network in arguments.networks:
        run = kept_run(
            arguments.runs_in / f"{network}.json",
            {**common, "network": network, "overrides": arguments.overrides},
            lambda network=network: networks.measure(network, arguments.overrides, arguments.turns),
            **kept,
        )
        found_networks[network] = told(network, run)
    result = {
        "threads": hardware.cores,
        "search": arguments.search,
        "overrides": arguments.overrides,
        "layers": found_layers,
        "networks": found_networks,
    }
    print(f"wrote {write_result('winograd', result, begun, hardware, results=arguments.out)}")


if __name__ == "__main__":
    main()
