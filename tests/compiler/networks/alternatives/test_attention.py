"""Attention as an alternative: which calls are offered, and the outputs of the network with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import Lowering, Network, to_relax
from foretune.compiler.networks.alternatives import attention as offered
from foretune.compiler.networks.alternatives.alternatives import Alternative, with_alternatives
from foretune.compiler.networks.alternatives.attention import attention_alternatives
from foretune.compiler.networks.lowering.lowering import LoweringError
from foretune.compiler.templates.cpu.programs import template_traces
from foretune.compiler.tvm_compat import parse_target
from foretune.compiler.types import data_type
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from support.cpus import HERE, cpu, multiplies
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from tvm.target import Target

pytestmark = pytest.mark.cpu

SERVER = cpu("x86-64-v4")


def softmax(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, -1)


HIDING = torch.zeros(13, 13).masked_fill(torch.arange(169).view(13, 13) % 3 == 1, float("-inf"))

WAYS = {
    "library": lambda q, k, v: scaled_dot_product_attention(q, k, v),
    "causal": lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True),
    "written out": lambda q, k, v: softmax(q @ k.mT / 4) @ v,
    "masked": lambda q, k, v: softmax(q @ k.mT * 0.25 + HIDING) @ v,
    "squares": lambda q, k, v: softmax(q @ k.mT).square() @ v,
    "other denominator": lambda q, k, v: (q @ k.mT).exp() / (1 + (q @ k.mT).exp().sum(-1, keepdim=True)) @ v,
    "one score is zero": lambda q, k, v: softmax((q @ k.mT) * (torch.arange(13) != 5)) @ v,
}


class Heads(nn.Module):
    """Two heads of 16 columns, whose query, key and value are columns of one product."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)
        self.way = way

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(rows).view(1, 13, 3, 2, 16).permute(2, 0, 3, 1, 4)
        return WAYS[self.way](query, key, value).transpose(1, 2).reshape(1, 13, 32)


def found_in(
    way: str, target: Target = SERVER, dtype: str = "float32"
) -> tuple[Network, tvm.IRModule, list[Alternative]]:
    torch.manual_seed(0)
    # In bfloat16, TVM does not join attention with the cast of an output to float32.
    module = Heads(way) if dtype == "float32" else nn.Sequential(Heads(way), nn.Linear(32, 32))
    network = Network("heads", (torch.randn(1, 13, 32).numpy(),), module.eval())
    lowering = Lowering(dtype=dtype)
    lowered = to_relax(network, target, lowering)
    with pytest.MonkeyPatch.context() as patch:
        for least in ("LEAST_OFFERED", "LEAST_GAIN"):
            patch.setattr(offered, least, 0.0)
        return network, lowered, attention_alternatives(lowered, target, lowering)


@multiplies("float32")
@pytest.mark.parametrize("way", ["library", "causal", "written out", "masked"])
def test_the_network_computes_the_same(way: str) -> None:
    network, module, found = found_in(way, HERE)
    (alternative,) = found
    assert alternative.offer.calls == 1 and len(alternative.offer.tasks) == 1
    changed = with_alternatives(module, found)
    calls = {var.name_hint for var, _ in changed.functions_items()}
    assert "fused_attention" in calls and not any("softmax" in name for name in calls)
    outputs = compile_network(changed, HERE)(*network.inputs)
    assert compare_outputs(network.reference_outputs(), outputs).agrees


@multiplies("bfloat16")
@pytest.mark.parametrize("way", ["library", "causal", "written out", "masked"])
def test_the_network_computes_the_same_in_bfloat16(way: str) -> None:
    network, module, found = found_in(way, HERE, "bfloat16")
    (alternative,) = found
    (function,) = alternative.functions
    assert "foretune_avx512_bf16" in function.script()
    changed = with_alternatives(module, found)
    (output,), (separate,) = (compile_network(one, HERE)(*network.inputs) for one in (changed, module))
    (expected,) = network.reference_outputs()
    tolerance = data_type("bfloat16").tolerances.network * float(np.abs(expected).max())
    np.testing.assert_allclose(output, expected, rtol=0, atol=tolerance)
    assert not np.array_equal(output, separate)


def test_bfloat16_is_offered_where_vectors_multiply_it() -> None:
    """If separate products run in tiles, the closed form does not decide."""
    server, tiles = cpu("cooperlake"), cpu("sapphirerapids")
    ((vectors,), (both,)) = (found_in("library", one, "bfloat16")[2] for one in (server, tiles))
    assert vectors.gain is not None and both.gain is None
    (task,) = vectors.offer.tasks
    assert task.operator == "attention" and len(template_traces(task.mod, server, None, 2)) == 1
    (wide,) = found_in("library")[2]
    assert wide.offer.tasks[0].operator == "attention"


def test_a_template_schedules_attention_whose_query_key_and_value_are_one_array() -> None:
    _, _, (alternative,) = found_in("library")
    (task,) = alternative.offer.tasks
    assert len(template_traces(task.mod, SERVER, None, 2)) == 1


@pytest.mark.parametrize("way", ["squares", "other denominator", "one score is zero"])
def test_what_is_no_attention(way: str) -> None:
    assert found_in(way)[2] == []


def test_a_small_expected_gain_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gain of 0.95 is offered, and measurements decide; one of 0.8 is not offered."""
    _, module, _ = found_in("library")
    monkeypatch.setattr(offered, "cycles", lambda *_: 100.0)
    for gain, expected in ((1.2, [1.2]), (0.95, [None]), (0.8, [])):
        monkeypatch.setattr(offered, "separate_cycles", lambda *_, gain=gain: 100.0 * gain)
        found = attention_alternatives(module, SERVER, Lowering())
        assert [alternative.gain for alternative in found] == expected


def test_where_nothing_is_offered() -> None:
    _, module, found = found_in("library")
    assert len(found) == 1
    assert attention_alternatives(module, SERVER, Lowering(attention="off")) == []
    assert attention_alternatives(module, parse_target("nvidia/nvidia-a100"), Lowering()) == []
    assert attention_alternatives(module, cpu("x86-64"), Lowering()) == []
    with pytest.raises(LoweringError, match=r"lowering\.attention=on: use off or auto"):
        Lowering(attention="on")


def test_a_constant_mask_that_hides_no_tail_reads_all_keys() -> None:
    """Blocks of keys that a causal mask hides are expected to take no time."""
    (causal,), (masked,) = found_in("causal")[2], found_in("masked")[2]
    assert causal.gain is not None and masked.gain is not None
    assert causal.gain > masked.gain
