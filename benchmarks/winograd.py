"""Winograd's algorithm against the direct convolution, on layers and in whole networks, timed in turns."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from foretune.compiler.networks import Lowering, load_network, lowered_network
from foretune.compiler.networks.alternatives.alternatives import with_alternatives
from foretune.compiler.tvm_compat import parse_target
from foretune.inference import OneShotConfig, tune_tasks
from foretune.inference.deploy.compile import compile_network
from torch import nn

from .checkouts import python_in, tune_command
from .common import ROOT, argument_parser, read_json, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks.loaded import loaded_samples_s
from .tasks import TURNS, time_in_turns

NETWORKS = ("resnet18", "vgg16")

FORMS = ("auto", "off")
"""Values of `lowering.winograd`. The first one also searches the tasks of the second one."""

LIMIT_S = 3600.0
"""Seconds after which a network is aborted."""


def measure_network(network: str, overrides: Sequence[str], turns: int) -> dict[str, Any]:
    """Median latency of each form by `foretune.load`, and the alternatives that the network uses.

    Raises SubprocessError if a run of `foretune tune` fails, including its check of the outputs.
    """
    inputs = load_network(network).inputs
    with tempfile.TemporaryDirectory() as scratch:
        reports, libraries = {}, {}
        for form in FORMS:
            libraries[form] = Path(scratch) / f"{form}.so"
            words = [
                *(f"network={network}", f"lowering.winograd={form}", f"output={scratch}/{form}"),
                *(f"database={scratch}/found", f"export={libraries[form]}", "rivals=[]"),
                "untuned_limit_s=1e-9",
            ]
            command = [*tune_command(ROOT), *words, *overrides]
            python_in(ROOT, command, cwd=Path(scratch), timeout_s=LIMIT_S)
            reports[form] = read_json(Path(scratch) / form / "report.json")
        samples = loaded_samples_s(libraries, inputs, turns)
    return {
        "alternatives": reports["auto"]["alternatives"],
        "forms": {
            form: {
                "latency_s": statistics.median(samples[form]),
                "samples_s": samples[form],
                "difference": reports[form]["max_abs_difference"],
                "tolerance": reports[form]["tolerance"],
                "total_s": reports[form]["total_s"],
            }
            for form in FORMS
        },
    }


DIRECT = "direct"

RESNET18 = ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512))
VGG16 = (
    (224, 64, 64),
    (112, 64, 128),
    (112, 128, 128),
    (56, 128, 256),
    (56, 256, 256),
    (28, 256, 512),
    (28, 512, 512),
    (14, 512, 512),
)
LAYERS = (*RESNET18, *VGG16)
"""Image size, input and output channels of the 3x3 layers of stride 1, without stems."""


class Layer(nn.Module):
    """Convolution with padding 1, bias and ReLU."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.convolution(data))


def measure(layer: tuple[int, int, int], overrides: dict[str, Any], turns: int = TURNS) -> dict[str, Any]:
    """Latency, programs and largest difference from PyTorch of each algorithm, by its name.

    `overrides` are fields of OneShotConfig. Programs run with cold caches, as in a network.
    """
    size, in_channels, out_channels = layer
    target = parse_target("llvm")
    network = load_network(
        "benchmarks.winograd:Layer",
        inputs=[[1, in_channels, size, size]],
        kwargs={"in_channels": in_channels, "out_channels": out_channels},
    )
    lowered = lowered_network(network, target, Lowering(winograd="auto"))
    mod, alternatives = lowered.relax_mod, lowered.alternatives
    (direct,) = [task for task in lowered.tasks if task.operator == "conv2d"]
    tasks = {DIRECT: direct, **{one.kind: one.offer.tasks[0] for one in alternatives}}
    forms = {DIRECT: mod, **{one.kind: with_alternatives(mod, [one]) for one in alternatives}}
    (reference,) = network.reference_outputs()
    largest = float(np.abs(reference).max())
    with tempfile.TemporaryDirectory() as folder:
        database, results = tune_tasks(
            list(tasks.values()), target, folder, search=OneShotConfig(**overrides)
        )
        programs, differences = [], []
        for name, task in tasks.items():
            scheduled = database.query_ir_module(task.mod, target, "main")
            programs.append(tvm.ir.save_json(task.mod if scheduled is None else scheduled))
            (output,) = compile_network(forms[name], target, database)(*network.inputs)
            differences.append(float(np.abs(output - reference).max()))
        seconds = time_in_turns(programs, target, flush=True, turns=turns)
    return {
        name: {
            "latency_s": latency_s,
            "difference": difference,
            "relative_difference": difference / largest,
            "measured": result.candidates_measured,
            "search_s": result.search_s + result.measure_s,
        }
        for name, latency_s, difference, result in zip(tasks, seconds, differences, results, strict=True)
    }


MINUTES = 60.0
"""Minutes after which no further run begins, by default."""


def arguments_of() -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--layers", type=int, nargs="*", default=list(range(len(LAYERS))), help="by number (all)")
    add("--networks", nargs="*", default=NETWORKS, help="(%(default)s)")
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
    for layer in (LAYERS[number] for number in arguments.layers):
        name = "x".join(map(str, layer))
        if any(row["layer"] == list(layer) for row in found_layers) or not runs.in_time(name):
            continue
        forms = runs.kept(
            name,
            {"turns": turns, "layer": layer, "search": arguments.search},
            partial(measure, layer, arguments.search, turns),
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
            partial(measure_network, network, arguments.overrides, turns),
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
    runs.write("winograd", result, begun, hardware)


if __name__ == "__main__":
    main()
