"""Operators that TVM lowers in the layout of the network alone."""

from __future__ import annotations

import numpy as np
import torch
import tvm
from foretune.compiler.networks import to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.buildable import keeps_layout, left_operators
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network
from torch import nn
from tvm import relax

TARGET = parse_target("llvm")


def test_a_transposed_convolution_between_others_keeps_its_layout():
    """ConvertLayout gives it channels last, for which TVM has no function."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv1d(3, 4, 3, padding=1), nn.ConvTranspose1d(4, 5, 4, stride=2, padding=1), nn.Conv1d(5, 2, 3)
    ).eval()
    data = np.random.default_rng(0).standard_normal((1, 3, 8), dtype=np.float32)
    lowered = to_relax(Network("waves", (data,), layers), TARGET, AS_FASTEST)
    assert left_operators(lowered) == [] and keeps_layout(lowered)
    (found,) = plain_network(lowered, TARGET)(data)
    with torch.no_grad():
        np.testing.assert_allclose(found, layers(torch.from_numpy(data)).numpy(), atol=1e-5)


def test_a_left_operator_is_named_with_its_tensors():
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [data]):
        shown = builder.emit(relax.op.reshape(relax.op.exp(data), (6,)))
        builder.emit_func_output(shown)
    mod = builder.get()
    assert left_operators(mod) == ['exp of R.Tensor((2, 3), dtype="float32")']
    with TARGET:
        assert left_operators(tvm.transform.Sequential([relax.transform.LegalizeOps()])(mod)) == []
