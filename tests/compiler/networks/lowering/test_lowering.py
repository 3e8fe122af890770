"""Lowering of a network for a CPU: channels last, layout-free weights, and parts that stay as they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.lifted_constants import with_lifted_constants
from foretune.compiler.networks import (
    AS_FASTEST,
    Lowering,
    Network,
    NetworkExportError,
    extract_tasks,
    keeps_layout,
    load_network,
    to_relax,
)
from foretune.compiler.networks.lowering import lowering as lowering_module
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import argument_buffers, layout_free, parse_target, relax_bindings
from foretune.compiler.types import numpy_type
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from torch import nn
from tvm import relax

CPU, GPU = parse_target("llvm"), parse_target("nvidia/nvidia-a100")
AS_EXPORTED = Lowering(channels_last=False, prepack=False)


def tasks_of(network: Network, target: tvm.target.Target, lowering: Lowering = AS_FASTEST) -> list[Task]:
    return extract_tasks(to_relax(network, target, lowering), target, network.name)


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("support.networks:EveryLayout", inputs=[[1, 3, 12, 10]])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int64"])
@pytest.mark.parametrize("axes", [None, [1, 2, 0], [-1, 0, 1], [0, 1, 2]])
def test_transposed_constants_are_constants(dtype: str, axes: list[int] | None) -> None:
    values = (np.arange(24).reshape(2, 3, 4) % 5).astype(numpy_type(dtype))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            turned = builder.emit_output(relax.op.permute_dims(relax.const(values, dtype), axes))
        builder.emit_func_output(turned)
    found, (constant,) = with_lifted_constants(lowering_module._moved_constants(builder.get()))
    assert operators(found) == []
    assert str(constant.dtype) == dtype
    np.testing.assert_array_equal(constant.numpy(), values.transpose(axes))


def test_equal_calls_with_transposed_constants_become_one() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2), "float32"))
    weight, other = (relax.const(np.full((3, 2), value, np.float32)) for value in (1, 2))
    with builder.function("main", [x]):
        with builder.dataflow():
            results = [
                builder.emit(relax.op.matmul(x, builder.emit(relax.op.permute_dims(one))))
                for one in (weight, other, weight)
            ]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    found, constants = with_lifted_constants(lowering_module._moved_constants(builder.get()))
    assert operators(found) == ["relax.matmul"] * 2 and len(constants) == 2


def operators(mod: tvm.IRModule) -> list[str]:
    """Names of the operators that `main` calls."""
    values = [value for _, value in relax_bindings(mod["main"])]
    return [value.op.name for value in values if isinstance(value, relax.Call)]


def layouts(tasks: list[Task]) -> set[str]:
    return {str(task.settings["layout"]) for task in tasks if "layout" in task.settings}


def test_a_cpus_convolutions_are_channels_last_and_what_is_between_them_follows(network: Network) -> None:
    tasks = tasks_of(network, CPU)
    assert layouts(tasks) == {"NHWC"}
    # In, and out to the linear layer: clips, leaky ReLUs, pools and residuals in between need no transpose.
    moved = [task for task in tasks if task.operator == "elementwise" and "transpose" in task.name]
    assert len(moved) <= 2


def test_only_weights_of_reductions_are_free_to_be_packed(network: Network) -> None:
    of_operator = {task.operator: task for task in tasks_of(network, CPU)}
    for operator, shape in (("conv2d", (3, 3, 3, 8)), ("depthwise_conv2d", (3, 3, 1, 8)), ("dense", (8, 5))):
        func = of_operator[operator].mod["main"]
        (index,) = layout_free(func)
        assert argument_buffers(of_operator[operator].mod)[index][0] == shape
    assert not layout_free(of_operator["pool2d"].mod["main"])
    assert "layout_free_buffers" not in dict(of_operator["pool2d"].mod["main"].attrs)


def test_a_gpus_tasks_stay_as_they_were_exported(network: Network) -> None:
    tasks = tasks_of(network, GPU)
    assert layouts(tasks) == {"NCHW"}
    assert not any(layout_free(task.mod["main"]) for task in tasks)


def test_each_part_can_be_switched_off(network: Network) -> None:
    exported = tasks_of(network, CPU, AS_EXPORTED)
    assert layouts(exported) == {"NCHW"} and not any(layout_free(task.mod["main"]) for task in exported)
    packed = tasks_of(network, CPU, Lowering(channels_last=False))
    assert layouts(packed) == {"NCHW"} and any(layout_free(task.mod["main"]) for task in packed)
    last = tasks_of(network, CPU, Lowering(prepack=False))
    assert layouts(last) == {"NHWC"} and not any(layout_free(task.mod["main"]) for task in last)


def test_products_stay_alone_without_epilogues() -> None:
    network = load_network("support.networks:TransformerBlock", inputs=[[1, 8, 32]])
    products = {
        epilogues: [
            task.name.removeprefix("fused_").rstrip("0123456789")
            for task in tasks_of(network, CPU, Lowering(epilogues=epilogues, attention="off"))
            if task.operator in ("dense", "batch_matmul")
        ]
        for epilogues in (True, False)
    }
    assert any("add" in name for name in products[True])
    assert products[False] and set(products[False]) == {"matmul"}


ALONE = Lowering(epilogues=False)


@pytest.mark.parametrize(
    "lowering", [Lowering(), AS_EXPORTED, ALONE], ids=["fastest", "exported", "products alone"]
)
def test_outputs_are_those_of_the_network(network: Network, lowering: Lowering) -> None:
    compiled = compile_network(to_relax(network, CPU, lowering), CPU)
    assert compare_outputs(network.reference_outputs(), compiled(*network.inputs)).agrees


def test_gelu_and_softmax_agree_with_pytorch() -> None:
    network = load_network("support.networks:Attention", inputs=[[1, 7, 16]])
    compiled = compile_network(to_relax(network, CPU), CPU)
    (want,), (got,) = network.reference_outputs(), compiled(*network.inputs)
    np.testing.assert_allclose(got, want, atol=2e-6)


class Squeezed(nn.Module):
    """A convolution whose result has extents of 1, which ConvertLayout cannot follow through the squeeze."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(x).squeeze() + 1


def test_a_network_whose_layout_cannot_change_keeps_its_own(network: Network) -> None:
    image = np.linspace(-1, 1, 1 * 2 * 3 * 6, dtype=np.float32).reshape(1, 2, 3, 6)
    squeezed = Network("squeezed", (image,), Squeezed().eval())
    mod = to_relax(squeezed, CPU)
    assert keeps_layout(mod) and not keeps_layout(to_relax(network, CPU))
    assert compare_outputs(squeezed.reference_outputs(), compile_network(mod, CPU)(image)).agrees
    with pytest.raises(NetworkExportError, match="squeezed"):  # what was asked for is not changed
        to_relax(squeezed, CPU, Lowering(channels_last=True))
