"""Advice on a network: parts that its designer may exchange, widen or add, and their effect on latency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....compiler.task import Task
from .alignment import Aligned
from .deepening import parameters
from .exchange import Cost
from .latencies import Latency
from .layers import Layer, Variant


@dataclass(frozen=True)
class LayerCosts:
    """One layer with other activations. Seconds are per call."""

    layer: str
    task: str
    weight: int
    """Calls in one run of the network."""
    activation: str
    """Activation of the layer in the network."""
    own_s: float
    """Latency of the layer with its own activation."""
    extra_s: dict[str, float]
    """Seconds that each activation adds compared with the layer's own; negative if it is faster."""
    turns_s: dict[str, list[float]]
    """The same in each turn of the measurement."""


@dataclass(frozen=True)
class ActivationAdvice:
    """One activation in all layers of the network that have an activation."""

    name: str
    calls: int
    """Calls of layers that have this activation now, in one run of the network."""
    extra_s: float
    """Seconds that it adds to a run of the network if `layers` use it; negative if the run is faster."""
    share: float
    """The same as a share of the network's latency."""
    layers: int
    """Number of layers with an activation that have a program which runs with this one."""
    of: int
    """Layers with an activation."""
    noise_s: float = 0.0
    """Largest difference of `extra_s` between the turns of the measurement; 0 for predictions."""

    @property
    def everywhere(self) -> bool:
        """Whether the seconds cover all layers with an activation."""
        return self.layers == self.of

    @property
    def clear(self) -> bool:
        """Whether the seconds exceed the differences between the turns."""
        return abs(self.extra_s) > self.noise_s


@dataclass(frozen=True)
class AlignmentAdvice:
    """One layer with aligned widths. Seconds are per run of the network, for all calls of the layer."""

    layer: str
    task: str
    weight: int
    direction: str
    """"up" or "down"."""
    widths: dict[str, tuple[int, int]]
    """Width of the layer and aligned width, by setting."""
    own_s: float
    aligned_s: float
    share: float
    """Saving as a share of the network's latency; negative if the aligned layer is slower."""

    @property
    def saved_s(self) -> float:
        """Seconds that the aligned layer saves in a run."""
        return self.own_s - self.aligned_s


@dataclass(frozen=True)
class DeepeningAdvice:
    """A 1x1 convolution after one layer. Seconds are per run of the network, for all calls of the layer."""

    layer: str
    task: str
    weight: int
    channels: int
    extra_s: float
    share: float
    """Added latency as a share of the network's latency."""
    parameters: int
    """Weights and biases that it adds, over all calls."""


@dataclass(frozen=True)
class Advice:
    """Advice on one network. The lists are sorted by benefit, the most worthwhile first."""

    network: str
    target: str
    hardware: str
    measured: bool
    """Whether the device measured the latencies; otherwise a cost model predicted them."""
    checkpoint: str
    """Name of the cost model that predicted the latencies; "" if they are measured."""
    network_s: float
    """Sum of the latencies of all tasks times their weights."""
    tasks: int
    unknown: list[str]
    """Tasks without a known latency, which `network_s` excludes."""
    layers: int
    """Number of tasks that are layers which can be built differently."""
    sources: dict[str, int]
    """Number of tasks by origin of their program."""
    alignment: int
    """Width unit in values; widths should be multiples of it."""
    nearly_free: float
    """Share of the network's latency up to which a 1x1 convolution counts as nearly free."""
    activations: list[ActivationAdvice]
    layer_costs: list[LayerCosts] = field(default_factory=list)
    aligned: list[AlignmentAdvice] = field(default_factory=list)
    deeper: list[DeepeningAdvice] = field(default_factory=list)
    disturbed: bool = False
    """Whether other work of the machine disturbed a measurement."""

    @property
    def free(self) -> list[DeepeningAdvice]:
        """1x1 convolutions that are nearly free."""
        return [one for one in self.deeper if one.share <= self.nearly_free]


def layer_costs(layer: Layer, costs: Mapping[str, Cost]) -> LayerCosts | None:
    """A layer with its costs by activation; None if none of its own programs ran."""
    activation = layer.variant.activation
    if activation not in costs:
        return None
    return LayerCosts(
        layer=layer.name,
        task=layer.of_network.name,
        weight=layer.of_network.weight,
        activation=activation,
        own_s=costs[activation].own_s,
        extra_s={name: cost.other_s - cost.own_s for name, cost in costs.items()},
        turns_s={name: cost.turns_s for name, cost in costs.items()},
    )


def activation_advice(
    names: Sequence[str], layers: Sequence[LayerCosts], network_s: float
) -> list[ActivationAdvice]:
    """Advice on each activation, the cheapest first; activations that few layers run with come last.

    The list is empty if no layer has an activation.
    """
    calls: defaultdict[str, int] = defaultdict(int)
    for layer in layers:
        calls[layer.activation] += layer.weight
    advice = []
    for name in dict.fromkeys([*names, *calls]) if layers else ():
        known = [layer for layer in layers if name in layer.extra_s]
        extra_s = sum(layer.weight * layer.extra_s[name] for layer in known)
        turns_s = [sum(seconds) for seconds in zip(*(_weighted(layer, name) for layer in known), strict=True)]
        noise_s = max(turns_s) - min(turns_s) if turns_s else 0.0
        advice.append(
            ActivationAdvice(
                name, calls[name], extra_s, extra_s / network_s, len(known), len(layers), noise_s
            )
        )
    return sorted(advice, key=lambda one: (-one.layers, one.extra_s))


def _weighted(layer: LayerCosts, name: str) -> list[float]:
    """Seconds that an activation adds to a run of the network in each turn, over all calls of the layer."""
    return [layer.weight * seconds for seconds in layer.turns_s[name]]


def alignment_advice(
    layers: Sequence[tuple[Layer, Aligned, Task]], latencies: Mapping[str, Latency], network_s: float
) -> list[AlignmentAdvice]:
    """Advice on each layer and direction with known latencies, the largest saving first."""
    advice = []
    for layer, aligned, task in layers:
        own, other = latencies.get(layer.task.workload_hash), latencies.get(task.workload_hash)
        if own is None or other is None:
            continue
        weight = layer.of_network.weight
        before, after = layer.variant.settings, aligned.variant.settings
        advice.append(
            AlignmentAdvice(
                layer=layer.name,
                task=layer.of_network.name,
                weight=weight,
                direction=aligned.direction,
                widths={name: (getattr(before, name), getattr(after, name)) for name in aligned.widths},
                own_s=weight * own.seconds,
                aligned_s=weight * other.seconds,
                share=weight * (own.seconds - other.seconds) / network_s,
            )
        )
    return sorted(advice, key=lambda one: -one.saved_s)


def deepening_advice(
    layers: Sequence[tuple[Layer, Variant, Task]], latencies: Mapping[str, Latency], network_s: float
) -> list[DeepeningAdvice]:
    """Advice on each 1x1 convolution with a known latency, the cheapest first."""
    advice = []
    for layer, variant, task in layers:
        latency = latencies.get(task.workload_hash)
        if latency is None:
            continue
        weight = layer.of_network.weight
        advice.append(
            DeepeningAdvice(
                layer=layer.name,
                task=layer.of_network.name,
                weight=weight,
                channels=variant.settings.to_dict()["out_channels"],
                extra_s=weight * latency.seconds,
                share=weight * latency.seconds / network_s,
                parameters=weight * parameters(variant),
            )
        )
    return sorted(advice, key=lambda one: one.extra_s)
