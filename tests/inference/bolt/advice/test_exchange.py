"""The same programs with another activation, on real TVM."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from foretune.compiler.replay import replay
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.programs import template_traces
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.dataset.sampling.programs import RandomSampler, SamplerSetting
from foretune.inference.bolt.advice.activations import ACTIVATIONS
from foretune.inference.bolt.advice.exchange import Exchange, activation_costs
from foretune.inference.bolt.advice.latencies import TaskPrograms
from foretune.inference.spaces.stock import StockSpace
from support.advice import CONV, FixedLatencies, layer

TARGET = parse_target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
HARDWARE = target_hardware(TARGET, measured=False)
LAYER = layer(replace(CONV, out_channels=32, prepack=True))


@pytest.fixture(scope="module")
def exchange() -> Exchange:
    return Exchange(TARGET, HARDWARE, StockSpace(6000))


@pytest.fixture(scope="module")
def traces() -> list[str]:
    """A searched program and a template."""
    sampler = RandomSampler(SamplerSetting(LAYER.task, TARGET, per_round=1, seed=1))
    (drawn, _), *_ = sampler.propose()
    return [drawn, *template_traces(LAYER.task.mod, TARGET, HARDWARE, 1)]


def decisions(trace: str) -> list[object]:
    """Tile sizes of a trace, in order."""
    return [value for _, value in json.loads(trace)[1] if isinstance(value, list)]


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"relu"}))
def test_programs_keep_their_tiles(exchange: Exchange, traces: list[str], name: str) -> None:
    other = LAYER.changed(replace(LAYER.variant, activation=name))
    context = exchange.context(other)
    for own, found in zip(traces, exchange.programs(LAYER.task, traces, other), strict=True):
        assert found is not None
        assert decisions(found) == decisions(own)
        assert replay(context, found) is not None


def test_a_program_of_another_task_has_no_like(exchange: Exchange) -> None:
    assert exchange.programs(LAYER.task, ["[[], []]"], LAYER.task) == [None]


def test_costs_compare_the_programs_that_run_with_both(exchange: Exchange, traces: list[str]) -> None:
    """Latencies by program in two turns: own 5 and 3 ms, the other 6 ms and a failure in the second turn."""
    other = LAYER.changed(replace(LAYER.variant, activation="gelu"))

    class Source(FixedLatencies):
        def turns_s(self, programs: Sequence[TaskPrograms]) -> list[list[list[float]]]:
            assert [of.task.workload_hash for of in programs] == [
                LAYER.task.workload_hash,
                other.workload_hash,
            ]
            assert [len(of.candidates) for of in programs] == [2, 2]
            return [[[5e-3, 5.5e-3], [3e-3, 3e-3]], [[8e-3, 6e-3], [7e-3, math.inf]]]

    costs = activation_costs(LAYER, ["gelu", "relu"], traces, exchange, Source(_nothing))
    assert (costs["relu"].own_s, costs["relu"].other_s, costs["relu"].programs) == (3e-3, 3e-3, 2)
    assert (costs["gelu"].own_s, costs["gelu"].other_s, costs["gelu"].programs) == (5e-3, 6e-3, 1)
    assert costs["relu"].turns_s == [0.0, 0.0]
    assert costs["gelu"].turns_s == pytest.approx([3e-3, 0.5e-3])


def test_an_activation_that_never_runs_has_no_cost(exchange: Exchange, traces: list[str]) -> None:
    source = FixedLatencies(lambda task: 1e-3 if task.workload_hash == LAYER.task.workload_hash else math.inf)
    costs = activation_costs(LAYER, ["tanh"], traces[:1], exchange, source)
    assert list(costs) == ["relu"]
    assert len(source.timed) == 2


def _nothing(task: Task) -> float:
    raise AssertionError("not asked")
