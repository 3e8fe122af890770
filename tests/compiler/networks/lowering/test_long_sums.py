"""Sums of very many elements keep the small ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.long_sums import LONG, LONG_AXIS, long_sums
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network
from torch import nn
from torch.nn import functional
from tvm import relax


class Function(nn.Module):
    """A function as a network."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.function(data)


# One large element, and small ones below half of its last digit, which a single loop drops one by one.
VOCABULARY = 18_385
SMALL = np.float32(2**-25)
LARGEST_ERROR = 4e-5


def peak(shape: tuple[int, ...], value: float, others: float) -> np.ndarray:
    """An array whose first element is `value`, and all others `others`."""
    data = np.full(shape, others, np.float32)
    data.flat[0] = value
    return data


OFFSET = (1 + 0.05 * np.random.default_rng(0).standard_normal((1, 2, 512, 512))).astype(np.float32)
"""Its variance is far below its squared mean, and its groups have 2^18 elements or more."""

SCALE, SHIFT = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 0.25])

CASES = {
    "group norm": (lambda x: functional.group_norm(x, 1, SCALE.to(x), SHIFT.to(x)), OFFSET),
    "group norm of two": (lambda x: functional.group_norm(x, 2), OFFSET),
    "instance norm": (lambda x: functional.instance_norm(x, weight=SCALE.to(x), bias=SHIFT.to(x)), OFFSET),
    "layer norm": (lambda x: functional.layer_norm(x, x.shape[1:]), OFFSET),
    "softmax": (lambda x: torch.softmax(x, -1), peak((2, VOCABULARY), 0.0, float(np.log(SMALL)))),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), peak((VOCABULARY, 2), 0.0, float(np.log(SMALL)))),
    "sum": (lambda x: x.sum(1), peak((2, VOCABULARY, 3), 1.0, SMALL)),
    "mean": (lambda x: x.mean(-1, keepdim=True), peak((LONG_AXIS,), 1.0, SMALL)),
    "sum of several axes": (lambda x: x.sum((1, 2)), peak((2, 512, 512), 1.0, SMALL)),
    "sum of all": (lambda x: x.sum(), peak((4, 512, 129), 1.0, SMALL)),
}


@pytest.mark.parametrize("name", CASES)
def test_small_elements_count(name):
    function, data = CASES[name]
    network = Network(name="F", inputs=(data,), module=Function(function).eval())
    exact = function(torch.from_numpy(data).double()).numpy()
    target = parse_target("llvm")
    (found,) = plain_network(to_relax(network, target, AS_FASTEST), target)(data)
    assert found.shape == exact.shape
    assert np.abs(found - exact).max() < LARGEST_ERROR * min(1.0, np.abs(exact).max())


def test_one_loop_drops_the_small_elements():
    data = CASES["sum"][1][0, :, 0]
    assert np.cumsum(data)[-1] == 1.0 and data.sum(dtype=np.float64) > 1.0 + 10 * LARGEST_ERROR


@pytest.mark.parametrize(
    ("operator", "shape"),
    [
        (lambda x: relax.op.nn.softmax(x, -1), (1, LONG_AXIS - 1)),
        (lambda x: relax.op.mean(x, [2, 3]), (1, 32, 112, 112)),
        (lambda x: relax.op.sum(x, [1]), (LONG, 8)),
    ],
)
def test_shorter_sums_stay_as_they_are(operator, shape):
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            found = builder.emit_output(operator(data))
        builder.emit_func_output(found)
    mod = builder.get()
    tvm.ir.assert_structural_equal(long_sums(mod), mod)
