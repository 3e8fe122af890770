"""Tasks that GPU templates compute, and how: read from TIR of networks in bfloat16."""

from __future__ import annotations

import pytest
import tvm
from foretune.compiler.instruction_sets import GPUS
from foretune.compiler.networks import Lowering
from foretune.compiler.targets import MissingInstructionError, traits
from foretune.compiler.task import Task
from foretune.compiler.templates.gpu.epilogue import REFERENCES
from foretune.compiler.templates.gpu.matching import Match, matched
from foretune.compiler.templates.gpu.problem import ACTIVATIONS, Product, Window
from foretune.compiler.tvm_compat import parse_target
from support.gpu_networks import lowered
from tvm import te, tirx, topi


def matches(tasks: list[Task]) -> dict[str, Match]:
    found = {task.name: matched(task.mod) for task in tasks}
    return {name: match for name, match in found.items() if match is not None}


def test_layers_of_a_residual_block() -> None:
    _, _, tasks = lowered("block")
    found = [match.problem for match in matches(tasks).values()]
    first, second, head = found
    assert isinstance(first, Window) and isinstance(second, Window)
    assert (first.stride, first.padding, first.activation, first.bias, first.residual) == (
        *(2, 1, "relu", "fp32", ""),
    )
    assert (second.stride, second.activation, second.bias, second.residual) == (1, "relu", "", "bf16")
    assert (head.rows, head.columns, head.depth, head.activation) == (49, 24, 16, "none")
    assert first.every_shape["data"] == (1, 14, 14, 8) and first.every_shape["weight"] == (3, 3, 8, 16)
    assert second.every_shape["data"] == (1, 7, 7, 16) and second.padding == 1


def test_dense_layers_with_gelu() -> None:
    _, _, tasks = lowered("dense")
    first, second = (match.problem for match in matches(tasks).values())
    assert isinstance(first, Product) and isinstance(second, Product)
    assert (first.m, first.n, first.k, first.activation, first.bias) == (18, 40, 24, "gelu", "fp32")
    assert (second.m, second.n, second.k, second.activation) == (18, 24, 40, "none")
    assert first.types["output"] == second.types["output"] == "bf16"


def product(
    finish=lambda sums, extra: sums, *, dtype="bfloat16", transposed=False, extra_shape=(16,)
) -> tvm.IRModule:
    """A product of 8 x 32 by 32 x 16 with a step behind it, which takes one more array."""
    left, right = te.placeholder((8, 32), dtype, "left"), te.placeholder((32, 16), dtype, "right")
    if transposed:
        right = te.placeholder((16, 32), dtype, "right")
    extra = te.placeholder(extra_shape, "float32", "extra")
    k = te.reduce_axis((0, 32), "k")

    def term(m, n):
        factor = right[n, k] if transposed else right[k, n]
        return te.sum(left[m, k].astype("float32") * factor.astype("float32"), axis=k)

    sums = te.compute((8, 16), term, "sums")
    output = topi.cast(finish(sums, extra), dtype)
    return tvm.IRModule({"main": te.create_prim_func([left, right, extra, output])})


@pytest.mark.parametrize("activation", sorted(set(ACTIVATIONS)))
def test_activations_are_known_by_their_values(activation: str) -> None:
    spelled = {
        "none": lambda x: x,
        "relu": topi.nn.relu,
        "gelu": lambda x: x * (topi.erf(x * 0.70710678) + 1.0) * 0.5,
        "hardswish": lambda x: x * topi.clip(x + 3.0, 0.0, 6.0) / 6.0,
        "silu": lambda x: x * topi.sigmoid(x),
        "softplus": lambda x: topi.log(topi.exp(x) + 1.0),
    }
    assert set(spelled) == set(REFERENCES) == set(ACTIVATIONS)
    match = matched(product(lambda sums, bias: spelled[activation](sums + bias)))
    assert match is not None and match.problem.activation == activation
    assert match.parameters == (0, 1, 2, 3)
    assert match.problem.types["bias"] == "fp32"


def test_what_no_template_computes() -> None:
    assert matched(product(lambda sums, bias: topi.tanh(sums + bias))) is None
    assert matched(product(lambda sums, bias: sums * bias)) is None  # a scale
    assert matched(product(lambda sums, bias: topi.nn.relu(sums) + bias)) is None  # behind the activation
    assert matched(product(lambda sums, row: sums + row, extra_shape=(8, 1))) is None  # one value a row
    assert matched(product(lambda sums, bias: sums + bias, transposed=True)) is None
    assert matched(product(lambda sums, bias: sums + bias, dtype="float32")) is None
    residual = matched(product(lambda sums, other: topi.nn.relu(sums + other), extra_shape=(8, 16)))
    assert residual is not None
    assert (residual.problem.bias, residual.problem.residual) == ("", "fp32")


@pytest.mark.parametrize("bounds", [(0.0, 20.0), (-50.0, 50.0), (-1000.0, 65504.0), (-1e6, 30.0)])
def test_a_clamp_far_from_zero_is_no_activation(bounds: tuple[float, float]) -> None:
    assert matched(product(lambda sums, bias: topi.clip(sums + bias, *bounds))) is None


def test_a_bound_on_a_scaled_sum_is_no_activation() -> None:
    bounded = product(lambda sums, bias: topi.minimum((sums + bias) * 0.01, 1.0) * 100.0)
    assert matched(bounded) is None


@pytest.mark.parametrize(
    ("arch", "rules"), [("sm_70", None), ("sm_80", 80), ("sm_86", 80), ("sm_90", 90), ("sm_100", 80)]
)
def test_rules_of_a_target(arch: str, rules: int | None) -> None:
    """Instructions that sm_90 has alone do not run on a later GPU."""
    target = parse_target({"kind": "cuda", "arch": arch, "max_threads_per_block": 1024})
    assert traits(target).gpu == (None if rules is None else GPUS[rules])
    lowering = Lowering(dtype="bfloat16")
    if rules is None:
        with pytest.raises(
            MissingInstructionError, match="sm_70 multiplies no bfloat16; use a GPU from sm_80"
        ):
            lowering.check_for(target)
    else:
        lowering.check_for(target)
    assert traits(parse_target("llvm")).gpu is None


def padded(value: float) -> tvm.IRModule:
    """A 3x3 convolution of 6 x 6 pixels with a value around them."""
    data, weight = te.placeholder((1, 6, 6, 8), "bfloat16"), te.placeholder((3, 3, 8, 16), "bfloat16")
    around = topi.nn.pad(data, [0, 1, 1, 0], pad_value=tirx.const(value, "bfloat16"))
    ry, rx, c = (te.reduce_axis((0, extent)) for extent in (3, 3, 8))

    def sums(n, y, x, f):
        pixel, factor = around[n, y + ry, x + rx, c], weight[ry, rx, c, f]
        return te.sum(pixel.astype("float32") * factor.astype("float32"), axis=[ry, rx, c])

    return tvm.IRModule({"main": te.create_prim_func([data, weight, te.compute((1, 6, 6, 16), sums)])})


def test_images_are_surrounded_by_zeros() -> None:
    zeros = matched(padded(0.0))
    assert zeros is not None and zeros.problem.types["output"] == "fp32"
    assert matched(padded(1.0)) is None
