"""Convolutions whose output channels are filled up to whole vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from foretune.compiler.networks.lowering.widened import LANES, widened_channels
from foretune.compiler.tvm_compat import parse_target
from tvm import relax, tirx

RNG = np.random.default_rng(0)
LAYERS = ("relax.nn.conv2d", "relax.matmul")
IMAGE = relax.TensorType((1, 6, 5, 8), "float32")


def constant(*shape: int) -> relax.Expr:
    return relax.const(RNG.standard_normal(shape).astype("float32"))


def convolution(data: relax.Expr, inputs: int, outputs: int, **options: Any) -> relax.Expr:
    weight = constant(1, 1, inputs // options.get("groups", 1), outputs)
    return relax.op.nn.conv2d(data, weight, data_layout="NHWC", kernel_layout="HWIO", **options)


def module(build: Any, kind: relax.TensorType = IMAGE) -> tvm.IRModule:
    """Function of an image whose body is what `build(emit, image)` returns."""
    builder, image = relax.BlockBuilder(), relax.Var("image", kind)
    with builder.function("main", [image]):
        with builder.dataflow():
            found = builder.emit_output(build(builder.emit, image))
        builder.emit_func_output(found)
    return builder.get()


def residual(emit: Any, image: relax.Expr) -> relax.Expr:
    """Two layers of 24 channels, their sum, and one of 32 that reads it."""
    first = emit(relax.op.add(emit(convolution(image, 8, 24)), constant(1, 1, 1, 24)))
    second = emit(relax.op.clip(emit(convolution(first, 24, 24)), 0.0, 6.0))
    both = emit(relax.op.add(emit(relax.op.multiply(second, constant(24))), first))
    return convolution(both, 24, 32)


def classifier(emit: Any, image: relax.Expr) -> relax.Expr:
    """Few values of 30 channels that are moved."""
    return relax.op.permute_dims(emit(convolution(image, 8, 30)), [0, 3, 1, 2])


def head(emit: Any, image: relax.Expr) -> relax.Expr:
    """Few values of 30 channels that the network returns."""
    return relax.op.add(emit(convolution(image, 8, 30)), constant(30))


def product(emit: Any, image: relax.Expr) -> relax.Expr:
    """A matrix product of 30 columns, and one that reads them."""
    hidden = emit(relax.op.nn.relu(emit(relax.op.matmul(image, constant(8, 30)))))
    return relax.op.matmul(hidden, constant(30, 32))


def grouped(emit: Any, image: relax.Expr) -> relax.Expr:
    """A reader for which each channel counts, of too many values to copy them."""
    wide = emit(relax.op.image.resize2d(image, (40, 40), layout="NHWC"))
    return convolution(emit(convolution(wide, 8, 24)), 24, 24, groups=24)


def mixed(emit: Any, image: relax.Expr) -> relax.Expr:
    """A sum with something that is no convolution."""
    shifted = emit(relax.op.mean(image, [3], keepdims=True))
    return convolution(emit(relax.op.add(emit(convolution(image, 8, 24)), shifted)), 24, 32)


def renamed(emit: Any, image: relax.Expr) -> relax.Expr:
    """A value with another name."""
    return emit(convolution(image, 8, 30))


def tiny(emit: Any, image: relax.Expr) -> relax.Expr:
    """Four channels, of which most would be new."""
    return convolution(emit(convolution(image, 8, 4)), 4, 16)


def weights(mod: tvm.IRModule) -> list[tuple[int, int]]:
    """Input and output channels of the layers, in order."""
    calls = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    found = [call for call in calls if len(getattr(call, "args", ())) > 1]
    shapes = [call.args[1].ty.shape for call in found if str(call.op.name) in LAYERS]
    return [(int(shape[len(shape) - 2]), int(shape[len(shape) - 1])) for shape in shapes]


def output(mod: tvm.IRModule) -> np.ndarray:
    built = relax.build(relax.transform.LegalizeOps()(mod), parse_target({"kind": "llvm", "num-cores": 1}))
    image = np.random.default_rng(1).standard_normal((1, 6, 5, 8)).astype("float32")
    return relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(image)).numpy()


@pytest.mark.parametrize(
    ("build", "widths"),
    [
        (residual, [(8, 32), (32, 32), (32, 32)]),
        (classifier, [(8, 32)]),
        (head, [(8, 32)]),
        (product, [(8, 32), (32, 32)]),
    ],
    ids=["residual", "classifier", "head", "product"],
)
def test_the_result_is_that_of_the_network(build: Any, widths: list[tuple[int, int]]) -> None:
    mod = module(build)
    changed = widened_channels(LANES)(mod)
    assert weights(changed) == widths
    before, after = output(mod), output(changed)
    assert after.shape == before.shape
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "widths"),
    [(residual, [(8, 32), (32, 32), (32, 32)]), (product, [(8, 32), (32, 32)]), (head, [(8, 30)])],
    ids=["residual", "product", "head"],
)
def test_a_batch_of_any_size_has_the_same_layers(build: Any, widths: list[tuple[int, int]]) -> None:
    """Values that something else reads may be many: they keep their channels."""
    kind = relax.TensorType((tirx.Var("n", "int64"), 6, 5, 8), "float32")
    assert weights(widened_channels(LANES)(module(build, kind))) == widths


@pytest.mark.parametrize("build", [grouped, mixed, renamed, tiny])
def test_other_networks_stay_as_they_are(build: Any) -> None:
    mod = module(build)
    tvm.ir.assert_structural_equal(widened_channels(LANES)(mod), mod)
