"""First layers in bfloat16, with padded and with unpadded input channels (Bolt, section 3.2.3)."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.tvm_compat import parse_target
from foretune.inference import OneShotConfig, tune_tasks
from foretune.inference.deploy.compile import CompiledNetwork, compile_network
from torch import nn
from tvm.target import Target

from .common import argument_parser, in_turns, start, this_machine, warm_seconds
from .kept_runs import KeptRuns, add_options, earlier_result

CHANNELS = 3
SIZE = 224

PLAIN = "plain"

FORMS: Mapping[str, int] = {PLAIN: 3, "filled up to 4": 4, "filled up to 8": 8}
"""Input channels of each form. The lowering pads three channels to the second number."""

LAYERS: Mapping[str, tuple[int, int, int]] = {
    "ResNet": (64, 7, 2),
    "MobileNetV2": (32, 3, 2),
    "VGG": (64, 3, 1),
}
"""Filters, window and stride by network."""


class First(nn.Module):
    """Convolution of an image whose channels are padded with zeros, with ReLU and a pooling.

    The pooled result is small, because its conversion would otherwise take longer than the layer.
    """

    def __init__(self, filters: int, window: int, stride: int, channels: int) -> None:
        super().__init__()
        full = nn.Conv2d(CHANNELS, filters, window, stride, window // 2)
        self.convolution = nn.Conv2d(channels, filters, window, stride, window // 2)
        with torch.no_grad():
            self.convolution.weight.zero_()
            self.convolution.weight[:, :CHANNELS] = full.weight
            self.convolution.bias.copy_(full.bias)
        self.lacking = channels - CHANNELS

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if self.lacking:
            image = nn.functional.pad(image, (0, 0, 0, 0, 0, self.lacking))
        return nn.functional.adaptive_avg_pool2d(torch.relu(self.convolution(image)), 1)


def measure(
    layer: tuple[int, int, int], target: Target, search: OneShotConfig, turns: int
) -> dict[str, dict[str, Any]]:
    """Latency of the layer in each form, from a float32 image in NCHW to its pooled result, and its error.

    All forms are tuned by the same search and timed in turns with warm caches. The difference is the largest
    one from PyTorch's float32 over the largest output.
    """
    compiled: dict[str, CompiledNetwork] = {}
    networks: dict[str, Network] = {}
    for form, channels in FORMS.items():
        networks[form] = load_network(
            "benchmarks.padding:First",
            inputs=[[1, CHANNELS, SIZE, SIZE]],
            kwargs=dict(zip(("filters", "window", "stride", "channels"), (*layer, channels), strict=True)),
        )
        mod = to_relax(networks[form], target, Lowering(dtype="bfloat16", fill_channels=form != PLAIN))
        with tempfile.TemporaryDirectory() as folder:
            database, _ = tune_tasks(extract_tasks(mod, target, form), target, folder, search=search)
            compiled[form] = compile_network(mod, target, database)
    calls = {form: one.bind(*networks[form].inputs) for form, one in compiled.items()}
    seconds: dict[str, list[float]] = {form: [] for form in FORMS}
    for _, form in in_turns(list(FORMS), turns):
        seconds[form].append(warm_seconds(calls[form]))
    found = {}
    for form, network in networks.items():
        (reference,), (output,) = network.reference_outputs(), compiled[form](*network.inputs)
        difference = np.abs(output - reference).max() / np.abs(reference).max()
        found[form] = {"latency_s": statistics.median(seconds[form]), "difference": float(difference)}
    return found


MINUTES = 30.0
"""Minutes after which no further layer begins, by default."""


def describe(name: str, forms: Mapping[str, Mapping[str, Any]]) -> str:
    """One line about a layer."""
    return f"{name}: " + ", ".join(f"{form} {1e6 * one['latency_s']:.0f} us" for form, one in forms.items())


def main() -> None:
    parser = argument_parser(__name__)
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
    runs.write("padding", {"layers": found}, begun, machine)


if __name__ == "__main__":
    main()
