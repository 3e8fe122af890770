"""Operators that TVM's importer lacks or gets wrong, in simpler ones. PyTorch's values are the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from foretune.compiler.networks import Network, extract_tasks, to_relax
from foretune.compiler.networks.importing.decompositions import decomposed
from foretune.compiler.networks.importing.torch_import import Importer, export
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from torch import nn

KNOWN = Importer().convert_map.keys()


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def assigned(x: torch.Tensor, where: Any, value: Any) -> torch.Tensor:
    """A copy of `x` after `x[where] = value`."""
    copy = x.clone()
    copy[where] = value
    return copy


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


ROWS = torch.tensor([1, 3, 0])
VOLUME, IMAGE = (1, 2, 3, 5, 4), (1, 2, 10, 11)

INDEXING = {
    "negative position": (lambda x: x[:, -1], normal(3, 4)),
    "last position": (lambda x: x[..., -1], normal(3, 4)),
    "negative tensor": (lambda x: x[torch.tensor(-1)], normal(5, 3)),
    "tensor of one number": (lambda x, i: x[i], normal(3, 4, 2), torch.tensor(-2)),
    "tensor of one number beside a range": (lambda x, i: x[1:, i], normal(3, 4, 2), torch.tensor(3)),
    "adjacent tensors": (lambda x, i: x[:, i, i], normal(2, 5, 5), ROWS),
    "separated tensors": (lambda x, i: x[i, :, i], normal(5, 3, 5), ROWS),
    "tensors that broadcast": (lambda x, i: x[i[:, None], i[None]], normal(5, 6, 2), ROWS),
    "assignment of columns": (
        lambda x, i, v: assigned(x, (slice(None), i), v),
        normal(2, 5),
        ROWS,
        normal(2, 3),
    ),
    "assignment that broadcasts": (
        lambda x, i: assigned(x, (i, i), torch.tensor(3.0)),
        normal(5, 5),
        ROWS,
    ),
    "masked assignment": (lambda x: assigned(x, x > 0, 0.0), normal(3, 4)),
    "sum into repeated rows": (
        lambda x, v: x.index_put((torch.tensor([0, 0, 2]),), v, accumulate=True),
        normal(5, 3),
        normal(3, 3),
    ),
    "index_copy": (lambda x, i, v: x.index_copy(1, i, v), normal(2, 5, 3), ROWS, normal(2, 3, 3)),
    "index_add": (lambda x, i, v: x.index_add(0, i, v, alpha=2), normal(5, 3), ROWS, normal(3, 3)),
    "embedding bag": (
        nn.EmbeddingBag(10, 3, mode="mean"),
        torch.tensor([1, 2, 4, 5, 4, 3]),
        torch.tensor([0, 2, 4]),
    ),
    "maxima of bags": (
        nn.EmbeddingBag(10, 3, mode="max"),
        torch.tensor([1, 2, 4, 5, 4, 3]),
        torch.tensor([0, 2, 2]),
    ),
    "fold": (nn.Fold((6, 7), 3, padding=1, stride=2), normal(1, 18, 12)),
    "scatter of a number": (lambda x: x.scatter(1, torch.tensor([[1, 3], [0, 2]]), 1.5), normal(2, 5)),
}
RESIZING = {
    "antialiased bilinear": (
        lambda x: F.interpolate(x, (5, 7), mode="bilinear", antialias=True),
        normal(*IMAGE),
    ),
    "antialiased bicubic": (
        lambda x: F.interpolate(x, (5, 14), mode="bicubic", antialias=True),
        normal(*IMAGE),
    ),
    "linear": (lambda x: F.interpolate(x, 7, mode="linear"), normal(1, 2, 5)),
    "trilinear": (lambda x: F.interpolate(x, (4, 6, 7), mode="trilinear"), normal(*VOLUME)),
    "trilinear, aligned": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="trilinear", align_corners=True),
        normal(*VOLUME),
    ),
    "nearest of a volume": (lambda x: F.interpolate(x, (4, 6, 7)), normal(*VOLUME)),
    "nearest, exact": (lambda x: F.interpolate(x, (6, 7), mode="nearest-exact"), normal(*IMAGE)),
    "sampled on a grid": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        normal(1, 2, 5, 6),
        normal(1, 3, 4, 2),
    ),
}
POOLING = {
    "divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=4), normal(1, 2, 8, 8)),
    "divisor, partial windows": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=4),
        normal(1, 2, 8, 8),
    ),
    "positions": (
        lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True),
        normal(1, 2, 9, 8),
    ),
    "positions without gaps": (lambda x: F.max_pool2d(x, 2, return_indices=True), normal(1, 2, 6, 6)),
}
ARITHMETIC = {
    "selu": (nn.SELU(), normal(3, 4)),
    "NaN": (lambda x: x != x, torch.tensor([1.0, float("nan")])),
    "shifts": (lambda x: (x << 2, x >> 1, x << x), torch.tensor([[0, 3], [5, 2]])),
    "power of two": (lambda x: 2**x, torch.tensor([0, 3, 40])),
    "power of a number": (lambda x: 2.5**x, normal(3, 4)),
    "deviation and mean": (lambda x: torch.std_mean(x, 1), normal(3, 4)),
    "stable sort": (lambda x: torch.sort(x, stable=True, descending=True), normal(3, 7)),
    "running maximum": (lambda x: torch.cummax(x.round(), 1), normal(3, 9)),
    "histogram": (lambda x: torch.histc(x, bins=5, min=-1, max=1), normal(40)),
    "empty operand": (lambda x: torch.cat([torch.empty(0), x]), normal(3)),
    "group norm without weights": (nn.GroupNorm(2, 4, affine=False), normal(2, 4, 3)),
    "k-th value": (lambda x: x.kthvalue(2), normal(3, 5)),
    "median without NaN": (
        lambda x: x.nanmedian(1)[0],
        torch.tensor([[3.0, float("nan"), 1.0, 2.0], [float("nan")] * 4]),
    ),
    "one bound for integers": (lambda x: (x.clamp(min=2), x.clamp(max=3)), torch.arange(6)),
    "largest in any order": (lambda x: x.topk(3, sorted=False)[0].sort()[0], normal(2, 7)),
    "sorted booleans": (lambda x: x.sort(1)[0], torch.tensor([[True, False, True]])),
    "product of integers": (lambda a, b: a @ b, torch.arange(6).reshape(2, 3), torch.arange(6).reshape(3, 2)),
    "layer in float64": (nn.Linear(5, 3).double(), normal(2, 5).double()),
    "bilinear": (nn.Bilinear(3, 4, 2), normal(5, 3), normal(5, 4)),
    "distances of pairs": (lambda x: F.pdist(x), normal(4, 3)),
    "fake quantisation": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
        normal(3, 4),
    ),
    "fake quantisation of channels": (
        lambda x, s: torch.fake_quantize_per_channel_affine(
            x, s, torch.tensor([0, 3], dtype=torch.int32), 1, -8, 7
        ),
        normal(3, 2),
        torch.tensor([0.1, 0.3]),
    ),
    "distances": (lambda a, b: torch.cdist(a, b), normal(3, 4), normal(5, 4)),
    "log of a running sum": (lambda x: x.logcumsumexp(1), normal(3, 5)),
}
HALF = {
    "sum": (lambda x: x.sum(1), normal(3, 400).half()),
    "mean": (lambda x: x.mean(), normal(3, 400).half()),
    "linear": (nn.Linear(8, 4).half(), normal(2, 8).half()),
}


def flat(found: Any) -> list[torch.Tensor]:
    return [found] if isinstance(found, torch.Tensor) else [one for part in found for one in flat(part)]


class Together(nn.Module):
    """Functions of inputs of their own as one network, as each export of a network takes a second."""

    def __init__(self, cases: Mapping[str, Any]) -> None:
        super().__init__()
        self.functions = nn.ModuleList(
            function if isinstance(function, nn.Module) else Function(function)
            for function, *_ in cases.values()
        )
        self.counts = [len(inputs) for _, *inputs in cases.values()]

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        left = iter(inputs)
        return [
            function(*islice(left, count))
            for function, count in zip(self.functions, self.counts, strict=True)
        ]


def check(cases: Mapping[str, Any], **tolerances: Any) -> None:
    """Compares the decomposed functions with the functions themselves."""
    module, inputs = Together(cases).eval(), [x for _, *inputs in cases.values() for x in inputs]
    program, unknown = decomposed(export(module, tuple(x.clone() for x in inputs)), KNOWN)
    assert unknown == []
    with torch.no_grad():
        expected, found = module(*inputs), flat(program.module()(*inputs))
    named = [(name, one) for name, wanted in zip(cases, expected, strict=True) for one in flat(wanted)]
    for (name, wanted), got in zip(named, found, strict=True):
        torch.testing.assert_close(got, wanted, **tolerances, msg=f"{name}: {{}}".format)


# Those with a scatter_add, which is converted and not decomposed, are compiled below, too.
@pytest.mark.parametrize(
    "cases", [INDEXING, RESIZING, POOLING, ARITHMETIC], ids=["indexing", "resizing", "pooling", "arithmetic"]
)
def test_decompositions_have_pytorchs_values(cases: Mapping[str, Any]) -> None:
    check(cases, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_half_precision_is_rounded_once() -> None:
    check(HALF, rtol=2e-3, atol=2e-3)


class Mixed(nn.Module):
    """One network of many repaired operators, so that they compile at once."""

    def forward(self, x: torch.Tensor, i: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x[0, 0, :, -1],
            x[0, 0][i, i],
            x[:, :, i, i],
            assigned(x, (0, slice(None), i), 0.5),
            x.scatter(2, i.reshape(1, 1, 3, 1), 1.5),
            x[0, 0].scatter_add(1, i.reshape(3, 1), x[0, 0, :3, :1]),
            F.grid_sample(x, grid, align_corners=False),
            *F.max_pool2d(x, 2, return_indices=True),
            F.avg_pool2d(x, 2, divisor_override=3),
            F.interpolate(x, (4, 5), mode="bilinear", antialias=True),
            F.selu(x),
            torch.cummax(x, 3)[0],
            x != x,
        )


def test_the_repaired_operators_compile_and_agree() -> None:
    target = parse_target("llvm")
    inputs = normal(1, 2, 6, 6), ROWS, normal(1, 3, 4, 2)
    module = Mixed().eval()
    network = Network("mixed", tuple(x.numpy() for x in inputs), module)
    relax_mod = to_relax(network, target)
    found = compile_network(relax_mod, target)(*(x.numpy() for x in inputs))
    for wanted, got in zip(module(*inputs), found, strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-5)
    names = {task.name for task in extract_tasks(relax_mod, target, "mixed")}
    assert names and not any("scatter" in name for name in names)  # which has no block to schedule
