"""Advice from latencies: sums, shares and order, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from foretune.inference.bolt.advice.alignment import aligned
from foretune.inference.bolt.advice.content import (
    LayerCosts,
    activation_advice,
    alignment_advice,
    deepening_advice,
    layer_costs,
)
from foretune.inference.bolt.advice.deepening import deepened
from foretune.inference.bolt.advice.exchange import Cost
from foretune.inference.bolt.advice.latencies import Latency
from foretune.inference.bolt.advice.layers import Layer, Variant
from support.advice import CONV, layer


def costs(name: str, weight: int, **extra_ms: float) -> LayerCosts:
    """A layer of 1 ms with its own activation."""
    extra_s = {activation: ms * 1e-3 for activation, ms in extra_ms.items()}
    turns_s = {activation: [seconds, 1.5 * seconds] for activation, seconds in extra_s.items()}
    return LayerCosts(
        "conv", "conv", weight, name, 1e-3, {name: 0.0, **extra_s}, {name: [0.0, 0.0], **turns_s}
    )


def test_an_activation_counts_each_call_of_each_layer() -> None:
    layers = [costs("relu", 3, gelu=0.2), costs("gelu", 1, relu=-0.3), costs("relu", 1, gelu=0.1)]
    cheap, dear = activation_advice(["relu", "gelu"], layers, network_s=10e-3)
    assert (cheap.name, cheap.calls, cheap.layers, cheap.of) == ("relu", 4, 3, 3)
    assert (cheap.extra_s, cheap.share) == (pytest.approx(-0.3e-3), pytest.approx(-0.03))
    assert (dear.name, dear.calls) == ("gelu", 1)
    assert (dear.extra_s, dear.share) == (pytest.approx(3 * 0.2e-3 + 0.1e-3), pytest.approx(0.07))


def test_an_activation_that_few_layers_run_with_comes_last() -> None:
    layers = [costs("relu", 1, gelu=0.5, silu=-9.0), costs("relu", 1, gelu=0.5)]
    found = activation_advice(["silu", "gelu", "relu", "tanh"], layers, network_s=1e-2)
    assert [one.name for one in found] == ["relu", "gelu", "silu", "tanh"]
    assert [one.everywhere for one in found] == [True, True, False, False]
    assert (found[3].layers, found[3].extra_s) == (0, 0.0)


def test_the_networks_own_activations_are_listed_unasked() -> None:
    assert [one.name for one in activation_advice([], [costs("tanh", 2)], 1e-2)] == ["tanh"]
    assert activation_advice(["relu"], [], 1e-2) == []


def test_costs_of_a_layer_are_differences_to_the_same_programs() -> None:
    one = layer(weight=2, name="conv_a")
    found = layer_costs(one, {"relu": Cost(4e-3, 4e-3, 3, [0.0]), "gelu": Cost(5e-3, 7e-3, 1, [2e-3])})
    assert found is not None
    assert found.extra_s == {"relu": 0.0, "gelu": pytest.approx(2e-3)}  # not 3e-3: another program is 4e-3
    assert (found.task, found.weight, found.activation, found.own_s) == ("conv_a", 2, "relu", 4e-3)
    assert layer_costs(one, {"gelu": Cost(5e-3, 7e-3, 1, [2e-3])}) is None


def test_a_change_is_clear_if_it_exceeds_the_differences_between_turns() -> None:
    steady, noisy = (
        LayerCosts("a", "a", 2, "relu", 1e-3, {"gelu": -1e-3}, {"gelu": [-1.1e-3, -1e-3]}),
        (LayerCosts("b", "b", 1, "relu", 1e-3, {"gelu": 0.0}, {"gelu": [1e-3, -2e-3]})),
    )
    (alone,) = (one for one in activation_advice(["gelu"], [steady], 1e-2) if one.name == "gelu")
    assert alone.noise_s == pytest.approx(0.2e-3) and alone.clear
    (both,) = (one for one in activation_advice(["gelu"], [steady, noisy], 1e-2) if one.name == "gelu")
    # -2.2 + 1 ms in the first turn, -2 - 2 ms in the second
    assert both.noise_s == pytest.approx(2.8e-3) and both.extra_s == pytest.approx(-2e-3)
    assert not both.clear


def test_alignment_saves_what_the_other_layer_takes_less() -> None:
    one = layer(weight=2)
    pairs = [(one, other, one.changed(other.variant)) for other in aligned(one, 16, False)]
    (_, _, up), (_, _, down) = pairs
    latencies = {
        one.task.workload_hash: Latency(3e-3, "x"),
        up.workload_hash: Latency(3.5e-3, "x"),
        down.workload_hash: Latency(2e-3, "x"),
    }
    best, worst = alignment_advice(pairs, latencies, network_s=20e-3)
    assert (best.direction, best.widths) == ("down", {"out_channels": (24, 16)})
    assert (best.own_s, best.aligned_s) == (pytest.approx(6e-3), pytest.approx(4e-3))
    assert (best.saved_s, best.share) == (pytest.approx(2e-3), pytest.approx(0.1))
    assert (worst.direction, worst.saved_s) == ("up", pytest.approx(-1e-3))
    del latencies[up.workload_hash]
    assert [one.direction for one in alignment_advice(pairs, latencies, 20e-3)] == ["down"]


def test_1x1_convolutions_come_cheapest_first() -> None:
    layers = [layer(weight=3), layer(replace(CONV, out_channels=8), weight=1)]
    pairs: list[tuple[Layer, Variant, object]] = []
    for one in layers:
        variant = deepened(one)
        assert variant is not None
        pairs.append((one, variant, one.changed(variant)))
    seconds = {task.workload_hash: Latency(2e-3, "x") for *_, task in pairs}  # type: ignore[attr-defined]
    small, large = deepening_advice(pairs, seconds, network_s=100e-3)  # type: ignore[arg-type]
    assert (small.channels, small.parameters, small.share) == (8, 8 * 8 + 8, pytest.approx(0.02))
    assert (large.channels, large.parameters) == (24, 3 * (24 * 24 + 24))
    assert (large.extra_s, large.share) == (pytest.approx(6e-3), pytest.approx(0.06))
    assert deepening_advice(pairs, {}, 1.0) == []  # type: ignore[arg-type]
