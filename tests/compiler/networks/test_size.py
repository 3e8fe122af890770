"""Bytes of networks: weights, and the intermediate results that a run keeps at once."""

from __future__ import annotations

import numpy as np
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.size import activation_bytes, weight_bytes
from torch import nn
from tvm import relax


def test_shared_weights_count_once() -> None:
    first, second = nn.Linear(4, 8, bias=False), nn.Linear(4, 8, bias=False)
    second.weight = first.weight
    module = nn.Sequential(first, nn.BatchNorm1d(8), second)
    network = Network("net", (np.zeros((1, 4), np.float32),), module)
    # 32 weights; four vectors of 8 and a counter of 8 bytes.
    assert weight_bytes(network) == 32 * 4 + 4 * 8 * 4 + 8


def test_results_count_until_their_last_use() -> None:
    """x: 400 bytes; a, b: 400 each; c: 100; the sum of a and b is the widest place."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((10, 10), "float32"))
    with builder.function("main", [x]):
        a = builder.emit(relax.op.nn.relu(x))
        b = builder.emit(relax.op.exp(a))
        total = builder.emit(relax.op.add(a, b))
        c = builder.emit(relax.op.sum(total, axis=[0]))
        builder.emit_func_output(c)
    assert activation_bytes(builder.get()) == 4 * 400


def test_a_result_that_the_network_returns_is_kept() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((10, 10), "float32"))
    with builder.function("main", [x]):
        a = builder.emit(relax.op.nn.relu(x))
        b = builder.emit(relax.op.exp(x))
        c = builder.emit(relax.op.exp(b))
        builder.emit_func_output(relax.Tuple([a, c]))
    assert activation_bytes(builder.get()) == 4 * 400
