"""Equality of operators' TIR with a network's import, so that one record serves both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import tvm
from foretune.compiler.networks import Lowering, Network, to_relax
from foretune.compiler.networks.inputs import example_inputs
from foretune.compiler.operators import (
    BatchMatmul,
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    LayerNorm,
    OperatorSettings,
    Pool2d,
    Reduction,
    Softmax,
    TransposedConv1d,
    TransposedConv2d,
)
from foretune.compiler.operators.shared.window import SlidingWindow
from foretune.compiler.tvm_compat import as_task_module, parse_target, workload_hash
from support.cpus import HERE, cpu
from torch import nn
from torch.nn import functional as F
from tvm import relax
from tvm.target import Target

pytestmark = pytest.mark.cpu

IMAGE, SEQUENCE, VOLUME, MATRIX = (1, 8, 12, 12), (1, 8, 12), (1, 4, 5, 6, 6), (4, 16)


class Layers(nn.Module):
    """Layers that the operators claim to match, alone or fused."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = nn.Conv2d(16, 16, 1)
        self.bare = nn.Conv2d(16, 4, 1, bias=False)
        self.grouped = nn.Conv2d(8, 4, 3, groups=2)
        self.upsample = nn.ConvTranspose2d(8, 4, 3, padding=1)  # with a stride it is decomposed
        self.norm = nn.BatchNorm2d(4)
        self.sequence = nn.Conv1d(8, 6, 3, stride=2, padding=1)
        self.longer = nn.ConvTranspose1d(8, 6, 4, stride=2, padding=1)
        self.volume = nn.Conv3d(4, 6, (1, 3, 3), padding=(0, 1, 1))
        self.separated = nn.Conv3d(4, 8, 3, padding=1, groups=4, bias=False)
        self.separated_norm = nn.BatchNorm3d(8)
        self.group_norm = nn.GroupNorm(2, 8)
        self.other_group_norm = nn.GroupNorm(4, 8)
        self.hidden = nn.Linear(16, 24)
        self.last = nn.Linear(24, 10)
        self.layer_norm = nn.LayerNorm(16)

    def forward(
        self, image: torch.Tensor, sequence: torch.Tensor, volume: torch.Tensor, matrix: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        x = F.relu(self.plain(image))
        x = F.relu(self.pointwise(F.relu6(self.depthwise(x))) + x)
        rows = x.flatten(2)
        return (
            self.bare(x),
            rows.transpose(1, 2) @ rows,
            F.gelu(self.grouped(image)),
            F.relu(self.norm(self.upsample(image))),
            F.max_pool2d(image, 3, 2, 1),
            F.avg_pool2d(image, 2, 2),
            F.gelu(self.sequence(sequence)),
            self.longer(sequence),
            F.relu(self.volume(volume)),
            F.relu(self.separated_norm(self.separated(volume))),
            F.silu(self.group_norm(image)),
            self.other_group_norm(image),
            self.last(F.relu(self.hidden(matrix))),
            self.layer_norm(matrix),
            F.softmax(matrix, -1),
            matrix.sum(1),
            matrix.mean(0),
        )


def hashes_of_layers(lowering: Lowering, target: Target = HERE) -> dict[str, str]:
    """Workload hashes of the tasks of `Layers` by name."""
    inputs = example_inputs([list(shape) for shape in (IMAGE, SEQUENCE, VOLUME, MATRIX)], 0)
    mod = to_relax(Network("layers", inputs, Layers().eval()), target, lowering)
    return {
        name.name_hint: workload_hash(as_task_module(func))
        for name, func in mod.functions.items()
        if isinstance(func, tvm.tirx.PrimFunc)
    }


@pytest.fixture(scope="module")
def network_hashes() -> dict[str, str]:
    """Hashes of the network as exported."""
    return hashes_of_layers(Lowering(channels_last=False, prepack=False))


@pytest.fixture(scope="module")
def tuned_hashes() -> dict[str, str]:
    """Hashes of the network as lowered for a CPU."""
    return hashes_of_layers(Lowering())


@pytest.fixture(scope="module")
def narrow_hashes() -> dict[str, str]:
    """Hashes of the network in bfloat16, without channels that fill up pairs or vectors."""
    return hashes_of_layers(Lowering(dtype="bfloat16", fill_channels=False), cpu("cooperlake"))


OPERATORS: list[OperatorSettings] = [
    Conv2d(
        batch=1, in_channels=8, height=12, width=12, out_channels=16, kernel=3, stride=2, padding=1,
        epilogue="bias_relu",
    ),
    DepthwiseConv2d(
        batch=1, in_channels=16, height=6, width=6, kernel=3, padding=1, epilogue="bias_relu6"
    ),
    Conv2d(
        batch=1, in_channels=16, height=6, width=6, out_channels=16, kernel=1, epilogue="bias_add_relu"
    ),
    Conv2d(batch=1, in_channels=16, height=6, width=6, out_channels=4, kernel=1),
    GroupConv2d(
        batch=1, in_channels=8, height=12, width=12, out_channels=4, kernel=3, groups=2,
        epilogue="bias_gelu",
    ),
    TransposedConv2d(
        batch=1, in_channels=8, height=12, width=12, out_channels=4, kernel=3, padding=1,
        epilogue="bias_relu",
    ),
    Pool2d(batch=1, channels=8, height=12, width=12, kernel=3, stride=2, padding=1),
    Pool2d(batch=1, channels=8, height=12, width=12, kernel=2, stride=2, mode="avg"),
    Conv1d(
        batch=1, in_channels=8, length=12, out_channels=6, kernel=3, stride=2, padding=1,
        epilogue="bias_gelu",
    ),
    TransposedConv1d(
        batch=1, in_channels=8, length=12, out_channels=6, kernel=4, stride=2, padding=1, epilogue="bias"
    ),
    Conv3d(
        batch=1, in_channels=4, depth=5, height=6, width=6, out_channels=6, kernel=(1, 3, 3),
        padding=(0, 1, 1), epilogue="bias_relu",
    ),
    GroupConv3d(
        batch=1, in_channels=4, depth=5, height=6, width=6, out_channels=8, kernel=3, padding=1, groups=4,
        epilogue="bias_relu",
    ),
    GroupNorm(batch=1, channels=8, groups=2, height=12, width=12, epilogue="silu"),
    GroupNorm(batch=1, channels=8, groups=4, height=12, width=12),
    Dense(rows=4, in_features=16, out_features=24, epilogue="bias_relu"),
    Dense(rows=4, in_features=24, out_features=10, epilogue="bias"),
    BatchMatmul(batch=1, rows=36, inner=16, columns=36),
    LayerNorm(rows=4, columns=16),
    Softmax(rows=4, columns=16),
    Reduction(rows=4, columns=16),
    Reduction(rows=4, columns=16, mode="mean", axis=0),
]  # fmt: skip


def label(op: OperatorSettings) -> str:
    return f"{op.operator}-{op.label}-{op.epilogue}"


@pytest.mark.parametrize("op", OPERATORS, ids=label)
def test_structure_equals_the_task_of_a_network(op: OperatorSettings, network_hashes: dict[str, str]) -> None:
    ours = workload_hash(as_task_module(op.prim_func()))
    equal = [name for name, theirs in network_hashes.items() if theirs == ours]
    assert len(equal) == 1, f"{op.label} equals {equal} of {list(network_hashes)}"


@pytest.mark.parametrize("op", [op for op in OPERATORS if op.packable], ids=label)
def test_a_cpus_task_of_a_network_is_channels_last_and_prepacked(
    op: OperatorSettings, tuned_hashes: dict[str, str]
) -> None:
    changes: dict[str, Any] = {"prepack": True}
    if isinstance(op, SlidingWindow):
        changes["layout"] = op.layouts[1]
    ours = workload_hash(as_task_module(replace(op, **changes).prim_func()))
    equal = [name for name, theirs in tuned_hashes.items() if theirs == ours]
    assert len(equal) == 1, f"{op.label} equals {equal} of {list(tuned_hashes)}"


# The last layer's output is the network's, which stays float32.
@pytest.mark.parametrize("op", [op for op in OPERATORS if op.packable and op.label != "4x24x10"], ids=label)
def test_a_task_of_a_network_in_bfloat16(op: OperatorSettings, narrow_hashes: dict[str, str]) -> None:
    changes: dict[str, Any] = {"prepack": True, "dtype": "bfloat16"}
    if isinstance(op, SlidingWindow):
        changes["layout"] = op.layouts[1]
    ours = workload_hash(as_task_module(replace(op, **changes).prim_func()))
    equal = [name for name, theirs in narrow_hashes.items() if theirs == ours]
    assert len(equal) == 1, f"{op.label} equals {equal} of {list(narrow_hashes)}"


def relax_hash(
    build: Callable[..., relax.Expr], *arguments: tuple[list[int], str], fuse_transpose: bool = False
) -> str:
    """Workload hash of the one function that a Relax expression of its arguments is lowered to."""
    inputs = [relax.Var(f"x{i}", relax.TensorType(*argument)) for i, argument in enumerate(arguments)]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(build(*inputs))
        builder.emit_func_output(output)
    passes = [relax.transform.FuseTransposeMatmul()] if fuse_transpose else []
    with parse_target("llvm"):
        mod = tvm.transform.Sequential([*passes, relax.get_pipeline("zero")])(builder.get())
    (func,) = (func for func in mod.functions.values() if isinstance(func, tvm.tirx.PrimFunc))
    return workload_hash(as_task_module(func))


def test_what_no_pytorch_layer_imports_as_equals_relax() -> None:
    maximum = relax_hash(lambda x: relax.op.max(x, axis=[1]), ([4, 16], "float32"))
    assert maximum == workload_hash(as_task_module(Reduction(rows=4, columns=16, mode="max").prim_func()))

    def convolve(data: relax.Var, weight: relax.Var) -> relax.Expr:
        return relax.op.nn.conv2d(
            data, weight, padding=1, data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32"
        )

    channels_last = Conv2d(
        batch=1, in_channels=4, height=6, width=7, out_channels=8, kernel=3, padding=1, layout="NHWC",
        dtype="int8",
    )  # fmt: skip
    integers = relax_hash(convolve, ([1, 6, 7, 4], "int8"), ([3, 3, 4, 8], "int8"))
    assert integers == workload_hash(as_task_module(channels_last.prim_func()))


def test_a_product_with_a_transposed_matrix_equals_relaxs_fusion() -> None:
    def scores(queries: relax.Var, keys: relax.Var) -> relax.Expr:
        return relax.op.matmul(queries, relax.op.permute_dims(keys, [0, 2, 1]))

    theirs = relax_hash(scores, ([2, 4, 6], "float32"), ([2, 5, 6], "float32"), fuse_transpose=True)
    op = BatchMatmul(batch=2, rows=4, inner=6, columns=5, transpose_right=True)
    assert theirs == workload_hash(as_task_module(op.prim_func()))
