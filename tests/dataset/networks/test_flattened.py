"""Convolutions of few channels as those of flattened windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from foretune.dataset.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.dataset.networks.flattened import flattened_windows
from foretune.dataset.templates.contraction import read_contraction
from foretune.dataset.tvm_compat import parse_target
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
    """A convolution of an image [2, 9, 11, channels] in NHWC."""
    rng = np.random.default_rng(0)
    shape = (*kernel, channels // groups, 4)
    weight = relax.const(rng.standard_normal(shape).astype("float32"))
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((2, 9, 11, channels), "float32"))
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
    ("channels", "kernel", "options"),
    [
        (3, (7, 7), {"strides": (2, 2), "padding": (3, 3, 3, 3)}),
        (3, (3, 3), {"strides": (2, 2), "padding": (1, 1, 1, 1)}),
        (3, (3, 3), {"strides": (1, 3)}),
        (1, (5, 3), {"padding": (0, 2, 1, 0)}),
        (5, (1, 2), {"padding": (0, 0, 0, 1)}),
        (3, (2, 4), {"dilation": (2, 1), "padding": (1, 1, 1, 1)}),
    ],
)
def test_the_result_is_that_of_the_convolution(
    channels: int, kernel: tuple[int, int], options: dict[str, object]
) -> None:
    mod = convolution(channels, kernel, **options)
    changed = flattened_windows(mod)
    assert "windows" in [var.name_hint for var in changed.get_global_vars()]
    image = np.random.default_rng(1).standard_normal((2, 9, 11, channels)).astype("float32")
    np.testing.assert_allclose(output(changed, image), output(mod, image), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "mod",
    [
        convolution(4, (3, 3)),  # whole groups
        convolution(3, (3, 1)),  # no window to flatten
        convolution(3, (3, 3), constant=False),
        convolution(6, (3, 3), groups=2),
        convolution(3, (3, 3), dilation=(1, 2)),
    ],
    ids=["pairs", "columns", "computed", "grouped", "dilated"],
)
def test_other_convolutions_stay_as_they_are(mod: tvm.IRModule) -> None:
    tvm.ir.assert_structural_equal(flattened_windows(mod), mod)


def test_a_first_layer_in_bfloat16_has_whole_pairs() -> None:
    network = load_network(f"{__name__}:Stem", inputs=[[1, 3, 20, 22]])
    depths = {}
    for dtype in ("bfloat16", "float32"):
        tasks = extract_tasks(to_relax(network, SERVER, Lowering(dtype=dtype)), SERVER, "stem")
        (task,) = [task for task in tasks if task.operator == "conv2d"]
        contraction = read_contraction(task.mod)
        assert contraction is not None
        depths[dtype] = (contraction.types[0], contraction.inner.extent, contraction.depth)
    assert depths == {"bfloat16": ("bfloat16", 22, 7 * 22), "float32": ("float32", 3, 7 * 7 * 3)}
