"""Hashes of tasks, to which tuning databases and datasets refer: they never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.low_precision.integer_products import in_integers
from foretune.compiler.networks.lowering.lowering import lower
from foretune.compiler.operators import Conv2d, Dense
from foretune.compiler.tvm_compat import as_task_module, parse_target, workload_hash
from tvm import relax

TARGETS = {
    "server": {"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2},
    "gpu": "nvidia/nvidia-a100",
}
INPUTS = {"Residual": [[1, 8, 6, 6]], "Attention": [[1, 7, 16]]}

HASHES = {
    "Residual float32 server": "7f851bb45b5a2e57 1e68e1f33f3f0b10 1e3ab75a729f9ec4 4c9bd7474b39df40 "
    "978c0b7cb8d32a11",
    "Residual bfloat16 server": "2805a4b3d5085279 3e3333f234addd77 7e2bbb2ebe1ef73c 5c6d297a05b99a73 "
    "401a37d24fd3279f abf07ac4f81919a8 978c0b7cb8d32a11",
    "Residual float32 gpu": "7fcfa89f8ca36878 9e3fcd736fbbd03c 2d488b25b3901450",
    "Residual bfloat16 gpu": "2805a4b3d5085279 3e3333f234addd77 cfefbce02b94133c 5c6d297a05b99a73 "
    "214c504c50fbc735 abf07ac4f81919a8 978c0b7cb8d32a11",
    "Attention float32 server": "4c6a8160a1cf124e 1035f899d607dcd9 f12d85411fe255bb 095e0b54060f7703",
    "Attention bfloat16 server": "23f01676598c654f bfb8218911270c76 3797a1e49135078d bb7f9c93b12a17f4 "
    "332cc120482b9a36",
    "Attention bfloat16 gpu": "23f01676598c654f bfb8218911270c76 3797a1e49135078d bb7f9c93b12a17f4 "
    "332cc120482b9a36",
    "Product int8 server": "8167f100eca09c7e",
}
"""Hashes of a network's tasks in their order, by network, data type and target."""

OPERATORS = {
    "conv2d float32": "baf65f5af045f0c8",
    "conv2d float16": "f4893e29f8595419",
    "conv2d bfloat16": "e1a733003115aa2e",
    "conv2d int8": "5ad271ee71ab85e0",
    "dense float32": "c18d742695c0ae29",
    "dense float16": "26b273628d45f2c7",
    "dense bfloat16": "3f537afcd9286393",
    "dense int8": "43c81f31cf58b661",
}
"""Hash by operator and data type."""


@pytest.mark.parametrize("name", HASHES)
def test_tasks_of_networks_keep_their_hashes(name: str) -> None:
    module, dtype, target = name.split()
    assert network_hashes(module, dtype, target) == HASHES[name]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_their_hashes(name: str) -> None:
    assert operator_hash(*name.split()) == OPERATORS[name]


def network_hashes(module: str, dtype: str, target: str) -> str:
    """Hashes of a network's tasks in their order."""
    parsed = parse_target(TARGETS[target])
    if dtype == "int8":
        mod = lower(in_integers(quantised_product()), parsed, Lowering(dtype=dtype))
    else:
        network = load_network(f"support.networks:{module}", inputs=INPUTS[module])
        mod = to_relax(network, parsed, Lowering(dtype=dtype))
    return " ".join(task.workload_hash for task in extract_tasks(mod, parsed, module))


def quantised_product() -> tvm.IRModule:
    """Product of quantised data [6, 24] and a quantised weight [24, 10], requantised."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6, 24), "uint8"))
    weight = (np.arange(240).reshape(24, 10) % 17 - 8).astype("int8")

    def grid(scale: float, zero: int, dtype: str) -> tuple[Any, Any]:
        return relax.const(np.float32(scale)), relax.const(np.array(zero, dtype))

    with builder.function("main", [x]):
        with builder.dataflow():
            left = builder.emit(relax.op.dequantize(x, *grid(0.5, 3, "uint8"), axis=0))
            right = builder.emit(relax.op.dequantize(relax.const(weight), *grid(0.25, 0, "int8"), axis=0))
            product = builder.emit(relax.op.matmul(left, right))
            scaled = relax.op.quantize(product, *grid(2.0, 5, "uint8"), axis=0, out_dtype="uint8")
            result = builder.emit_output(scaled)
        builder.emit_func_output(result)
    return builder.get()


def operator_hash(operator: str, dtype: str) -> str:
    """Hash of an operator by its settings."""
    settings = {
        "conv2d": Conv2d.examples()[0],
        "dense": Dense.examples()[0],
    }[operator]
    values = {**settings.to_dict(), "dtype": dtype, "epilogue": "bias_relu"}
    return workload_hash(as_task_module(type(settings).from_dict(values).prim_func()))
