"""Convolutions of few channels as those of whole pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.lowering.filled import ALIGNED, filled_channels
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.gpu.matching import matched
from foretune.compiler.templates.gpu.problem import Window
from foretune.compiler.tvm_compat import parse_target
from tvm import relax

SERVER = parse_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})


class Stem(torch.nn.Module):
    """First layer of an image network."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 16, 7, 2, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.convolution(image))


def convolution(
    channels: int, kernel: tuple[int, int], *, constant: bool = True, groups: int = 1, **options: object
) -> tvm.IRModule:
    """A convolution of an image [2, 9, 12, channels] in NHWC."""
    rng = np.random.default_rng(0)
    shape = (*kernel, channels // groups, 4)
    weight = relax.const(rng.standard_normal(shape).astype("float32"))
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((2, 9, 12, channels), "float32"))
    filters = relax.Var("weight", relax.TensorType(shape, "float32"))
    with builder.function("main", [image] if constant else [image, filters]):
        called = relax.op.nn.conv2d(
            image,
            weight if constant else filters,
            groups=groups,
            data_layout="NHWC",
            kernel_layout="HWIO",
            **options,
        )
        builder.emit_func_output(builder.emit(called))
    return builder.get()


def output(mod: tvm.IRModule, image: np.ndarray) -> np.ndarray:
    built = relax.build(relax.transform.LegalizeOps()(mod), parse_target({"kind": "llvm", "num-cores": 1}))
    return relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(image)).numpy()


@pytest.mark.parametrize(
    ("channels", "kernel", "options", "whole"),
    [
        (3, (7, 7), {"strides": (2, 2), "padding": (3, 3, 3, 3)}, 4),
        (3, (5, 5), {"strides": (1, 2), "padding": (2, 1, 0, 4)}, 4),
        (1, (5, 3), {"strides": (1, 2), "padding": (0, 2, 1, 0)}, 2),
        (7, (1, 1), {}, 8),
        (3, (2, 4), {"dilation": (2, 2), "padding": (1, 1, 1, 1)}, 4),
    ],
)
def test_the_result_is_that_of_the_convolution(
    channels: int, kernel: tuple[int, int], options: dict[str, object], whole: int
) -> None:
    mod = convolution(channels, kernel, **options)
    changed = filled_channels(2)(mod)
    (call,) = [
        binding.value
        for block in changed["main"].body.blocks
        for binding in block.bindings
        if getattr(binding.value.op, "name", "") == "relax.nn.conv2d"
    ]
    assert int(call.args[1].ty.shape[2]) == whole
    image = np.random.default_rng(1).standard_normal((2, 9, 12, channels)).astype("float32")
    np.testing.assert_allclose(output(changed, image), output(mod, image), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "mod",
    [
        convolution(4, (3, 3)),  # whole pairs
        convolution(9, (3, 3)),  # not few
        convolution(3, (3, 3), constant=False),
        convolution(6, (3, 3), groups=2),
    ],
    ids=["pairs", "many", "computed", "grouped"],
)
def test_other_convolutions_stay_as_they_are(mod: tvm.IRModule) -> None:
    tvm.ir.assert_structural_equal(filled_channels(2)(mod), mod)


def test_a_first_layer_in_bfloat16_has_whole_pairs() -> None:
    network = load_network(f"{__name__}:Stem", inputs=[[1, 3, 20, 22]])
    depths = {}
    for dtype in ("bfloat16", "float32"):
        tasks = extract_tasks(to_relax(network, SERVER, Lowering(dtype=dtype)), SERVER, "stem")
        (task,) = [task for task in tasks if task.operator == "conv2d"]
        contraction = read_contraction(task.mod)
        assert contraction is not None
        depths[dtype] = (contraction.types[0], contraction.inner.extent, contraction.depth)
    assert depths == {"bfloat16": ("bfloat16", 4, 7 * 7 * 4), "float32": ("float32", 3, 7 * 7 * 3)}


def test_a_gpu_loads_whole_groups_of_eight() -> None:
    mod = convolution(3, (7, 7), strides=(2, 2), padding=(3, 3, 3, 3))
    image = np.random.default_rng(1).standard_normal((2, 9, 12, 3)).astype("float32")
    changed = filled_channels(ALIGNED)(mod)
    np.testing.assert_allclose(output(changed, image), output(mod, image), rtol=1e-4, atol=1e-5)
    network = load_network(f"{__name__}:Stem", inputs=[[1, 3, 20, 22]])
    gpu = parse_target("nvidia/nvidia-a100")
    tasks = extract_tasks(to_relax(network, gpu, Lowering(dtype="bfloat16")), gpu, "stem")
    (match,) = filter(None, (matched(task.mod) for task in tasks))
    assert isinstance(match.problem, Window)
    assert (match.problem.channels, match.problem.filters, match.problem.activation) == (8, 16, "relu")
