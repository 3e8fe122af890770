"""One 3x3 layer: direct convolution and Winograd's with each tile size, searched and timed in turns."""

from __future__ import annotations

import tempfile
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

from ..tasks import TURNS, time_in_turns

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
        f"{__name__}:Layer",
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
