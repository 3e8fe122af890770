"""Layers and latencies for tests of advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foretune.compiler.operators.convolutions.conv2d import Conv2d
from foretune.compiler.task import Task
from foretune.inference.bolt.advice.latencies import PREDICTED, Latency, LatencySource, TaskPrograms
from foretune.inference.bolt.advice.layers import Layer, Variant
from torch import nn

CONV = Conv2d(
    batch=1,
    in_channels=16,
    out_channels=24,
    height=9,
    width=7,
    kernel=(3, 3),
    stride=(2, 1),
    padding=(1, 1),
    layout="NHWC",
    epilogue="bias",
)
"""Output of 5 x 7, 24 channels, which miss two vectors of 16."""


def layer(settings: Any = CONV, activation: str = "relu", weight: int = 1, name: str = "layer") -> Layer:
    """A layer whose network's task is the layer as it is built."""
    variant = Variant(settings, activation)
    return Layer(replace(variant.task(name), weight=weight), variant)


class FixedLatencies(LatencySource):
    """Seconds by a function of the task, whatever the program."""

    measured = True
    checkpoint = ""

    def __init__(self, seconds: Callable[[Task], float], traces: Mapping[str, Sequence[str]] = {}) -> None:
        self._seconds = seconds
        self._traces = traces
        self.timed: list[str] = []
        """Tasks whose programs were timed."""

    def best(self, tasks: Sequence[Task], parents: Any, on_progress: Any) -> dict[str, Latency]:
        """See LatencySource."""
        return {task.workload_hash: Latency(self._seconds(task), PREDICTED) for task in tasks}

    def fastest(self, task: Task, most: int) -> list[str]:
        """See LatencySource."""
        return list(self._traces.get(task.workload_hash, ()))[:most]

    def turns_s(self, programs: Sequence[TaskPrograms]) -> list[list[list[float]]]:
        """See LatencySource."""
        self.timed += [of.task.workload_hash for of in programs]
        return [[[self._seconds(of.task)]] * len(of.candidates) for of in programs]


class ManyActivations(nn.Module):
    """Convolutions with every activation that the import fuses, one with a residual before its activation."""

    def __init__(self) -> None:
        super().__init__()
        activations = [nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.01), nn.Hardsigmoid(), nn.Hardswish()]
        activations += [nn.Sigmoid(), nn.Tanh(), nn.SiLU(), nn.GELU(), nn.Identity()]
        layers: list[nn.Module] = []
        for number, activation in enumerate(activations):
            layers += [nn.Conv2d(4 + number, 5 + number, 3, padding=1), activation]
        self.stack = nn.Sequential(*layers)
        self.last = nn.Conv2d(14, 14, 1)

    def forward(self, x: Any) -> Any:
        x = self.stack(x)
        return nn.functional.elu(nn.functional.relu(self.last(x) + x))


class Small(nn.Module):
    """Two convolutions, the second with 24 channels, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2), nn.Hardswish()
        )
        self.classifier = nn.Linear(24, 10)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x).mean((2, 3)))


class NoLayers(nn.Module):
    """A network without a convolution or product."""

    def forward(self, x: Any) -> Any:
        return nn.functional.relu(x) + 1
