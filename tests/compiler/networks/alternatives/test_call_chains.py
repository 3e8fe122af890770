"""Calls that one GPU template computes together, found in networks as they are lowered for a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import Lowering, Network, to_relax
from foretune.compiler.networks.alternatives.call_chains import CallChain, call_chains
from foretune.compiler.templates.gpu import matching
from foretune.compiler.templates.gpu.attention import Attention, Layout, packed
from foretune.compiler.templates.gpu.rows import NormedProduct
from foretune.compiler.tvm_compat import workload_hash
from support.gpu_networks import TARGET, Layer, lowered, lowered_module

ROWS, WIDTH = Layer.ROWS, Layer.WIDTH
SHAPE = (1, ROWS, WIDTH)


def attentions(module: torch.nn.Module, shape: tuple[int, ...] = SHAPE) -> list[CallChain]:
    _, mod, _ = lowered_module("changed", module, shape)
    return [chain for chain in call_chains(mod) if isinstance(chain.match.problem, Attention)]


@pytest.mark.parametrize(("name", "batch", "calls"), [("layer", 2, 8), ("library", 1, 8)])
def test_attention_of_a_layer_is_one_problem(name: str, batch: int, calls: int) -> None:
    _, mod, tasks = lowered(name)
    attention = call_chains(mod)[0]
    heads = packed(batch, ROWS, 2, 16) if batch > 1 else replace(packed(1, ROWS, 2, 16), batch=0)
    # Each head has 16 of the 32 columns that the products write, and all have one mask.
    assert attention.match.problem == Attention(
        batch=batch,
        heads=2,
        queries=ROWS,
        keys=ROWS,
        width=16,
        scale=0.25,
        layouts=(heads, heads, heads, Layout(ROWS * ROWS, 0, 0, 0, ROWS), heads),
        mask="fp32",
        dtype="bf16",
        output="bf16",
    )
    assert attention.match.parameters == (0, 1, 2, 3, 4)
    assert attention.name == "fused_attention" and len(attention.replaces) == calls
    hashes = {task.workload_hash for task in tasks}
    assert set(attention.replaces) <= hashes and attention.workload not in hashes
    assert [len(place.inputs) for place in attention.places] == [4]


def test_products_with_layer_norm() -> None:
    _, mod, _ = lowered("layer")
    found = [chain for chain in call_chains(mod) if isinstance(chain.match.problem, NormedProduct)]
    first, second = (chain.match.problem for chain in found)
    assert isinstance(first, NormedProduct) and isinstance(second, NormedProduct)
    assert (first.m, first.n, first.k, first.residual, first.epsilon) == (38, 32, 32, "fp32", 1e-5)
    assert (second.m, second.n, second.k, second.residual, second.output) == (38, 32, 48, "bf16", "fp32")
    assert all(len(chain.replaces) == 2 for chain in found)


def test_layers_share_their_chains() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(Layer(), Layer())

        def forward(self, rows):
            return self.layers(rows)

    (found,) = attentions(Two())
    assert len(found.places) == 2


class Changed(Layer):
    """A layer whose attention is what a function makes of query, key, value and mask."""

    def __init__(self, attend) -> None:
        super().__init__()
        self.attend = attend

    def attention(self, query, key, value):
        return self.attend(query, key, value, self.mask)


def softmax(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, -1)


@pytest.mark.parametrize(
    ("attend", "scale", "mask"),
    [
        (lambda q, k, v, m: softmax(q @ k.mT) @ v, 1.0, ""),
        (lambda q, k, v, m: softmax((q / 3) @ k.mT * 0.5) @ v, 0.5 / 3, ""),
        (lambda q, k, v, m: softmax(q @ k.mT / 4 + m * 0) @ v, 0.25, ""),  # a mask that hides nothing
        (lambda q, k, v, m: softmax(q @ k.mT * 0.25 + m[..., :1, :]) @ v, 0.25, "fp32"),
    ],
    ids=["bare", "scaled twice", "mask of zeros", "mask of keys"],
)
def test_spellings_of_attention(attend, scale: float, mask: str) -> None:
    (found,) = attentions(Changed(attend))
    problem = found.match.problem
    assert isinstance(problem, Attention)
    assert problem.scale == pytest.approx(scale) and problem.mask == mask


@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v, m: torch.softmax(q @ k.mT + m, -2) @ v,
        lambda q, k, v, m: softmax(q @ k.mT + m).square() @ v,
        lambda q, k, v, m: softmax((q @ k.mT).relu() + m) @ v,
        lambda q, k, v, m: softmax(q @ k.mT + 2 * (q @ k.mT).mT) @ v,
        lambda q, k, v, m: softmax(q @ k.mT + m) @ v.cumsum(2),
        lambda q, k, v, m: (lambda e: e / (e.sum(-1, keepdim=True) + 1))((q @ k.mT).exp()) @ v,
    ],
    ids=["other axis", "squares", "relu", "two products", "sums of values", "other denominator"],
)
def test_what_is_no_attention(attend) -> None:
    assert attentions(Changed(attend)) == []


def test_weights_that_something_else_reads_are_kept() -> None:
    class Weights(Layer):
        def forward(self, rows):
            query, key, value = (self.heads(of(rows)) for of in (self.query, self.key, self.value))
            weights = softmax(query @ key.mT)
            return weights @ value, weights

    assert attentions(Weights()) == []


def test_a_product_whose_sum_something_else_reads_keeps_its_layer_norm_apart() -> None:
    class Early(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.product, self.norm = torch.nn.Linear(24, 24), torch.nn.LayerNorm(24)

        def forward(self, rows):
            kept = rows + self.product(rows)
            return kept, self.norm(kept)

    _, mod, _ = lowered_module("early", Early(), (1, 9, 24))
    assert call_chains(mod) == []


def test_values_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a template's problem is none where the numbers differ."""
    tasks = lowered("early")[2]
    (norm,) = (task for task in tasks if task.name.startswith("layer_norm"))
    read = matching.read_rows
    assert matching.matched(norm.mod) is not None

    def swapped(task: tvm.IRModule):
        problem, (data, scale, shift, output) = read(task)
        return problem, (data, shift, scale, output)

    monkeypatch.setattr(matching, "read_rows", swapped)
    assert matching.matched(norm.mod) is None


def test_only_what_is_read_is_joined() -> None:
    _, mod, _ = lowered("layer")
    seen: list[str] = []

    def read(task: tvm.IRModule):
        seen.append(workload_hash(task))

    assert call_chains(mod, read) == []
    assert len(seen) == len(set(seen)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(("model", "config"), [("BertModel", "BertConfig"), ("ViTModel", "ViTConfig")])
def test_transformers_as_they_are_exported(model: str, config: str, attention: str) -> None:
    library = pytest.importorskip("transformers")
    small = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    images = {"image_size": 64, "patch_size": 16} if model.startswith("ViT") else {"vocab_size": 100}
    made = getattr(library, config)(attn_implementation=attention, **small, **images)

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = getattr(library, model)(made)

        def forward(self, given):
            return self.model(given).last_hidden_state

    random = np.random.default_rng(0)
    image = random.standard_normal((1, 3, 64, 64), dtype=np.float32)
    given = image if images.get("image_size") else random.integers(0, 100, (1, 32))
    network = Network(model, (given,), States().eval())
    found = call_chains(to_relax(network, TARGET, Lowering(dtype="bfloat16")))
    attentions = [chain for chain in found if isinstance(chain.match.problem, Attention)]
    assert [len(chain.places) for chain in attentions] == [2]
    problem = attentions[0].match.problem
    # Neither network hides anything.
    assert (problem.heads, problem.width, problem.scale, problem.mask) == (4, 16, 0.25, "")
    normed = sum(len(chain.places) for chain in found if isinstance(chain.match.problem, NormedProduct))
    # ViT normalises before its products, and once in the end.
    assert normed == (4 if model == "BertModel" else 1)
