"""Products of quantised networks in integers: values by hand, any scales and shapes, what stays float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks.low_precision.integer_products import FLOAT_PRODUCTS, in_integers
from foretune.compiler.networks.lowering.lowering import Lowering, lower
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.overflow import most_products
from foretune.compiler.tvm_compat import as_task_module, parse_target
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tvm import relax

SERVER = parse_target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
Grid = tuple[Any, Any]
"""Scale and zero point, numbers or arrays by channel."""


def dequantize(data: Any, grid: Grid, dtype: str, axis: int = 0) -> Any:
    scale, zero = (np.asarray(values) for values in grid)
    return relax.op.dequantize(
        data, relax.const(scale.astype("float32")), relax.const(zero.astype(dtype)), axis=axis
    )


def quantize(data: Any, grid: Grid, dtype: str = "uint8") -> Any:
    scale, zero = grid
    return relax.op.quantize(
        data, relax.const(np.float32(scale)), relax.const(np.array(zero, dtype)), axis=0, out_dtype=dtype
    )


def network(data: NDArray[Any], body: Callable[[relax.BlockBuilder, Any], Any]) -> tvm.IRModule:
    """Module of a function of integers like `data`."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(data.shape, str(data.dtype)))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(body(builder, x)))
        builder.emit_func_output(result)
    return builder.get()


def run(mod: tvm.IRModule, data: NDArray[Any]) -> NDArray[Any]:
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(data)).numpy()


def calls(mod: tvm.IRModule) -> list[relax.Call]:
    found: list[relax.Call] = []
    relax.analysis.post_order_visit(
        mod["main"], lambda expr: found.append(expr) if isinstance(expr, relax.Call) else None
    )
    return found


def types_of(mod: tvm.IRModule, name: str) -> list[tuple[str, ...]]:
    """Data types of the arguments and of the result of the calls of an operator."""
    own = [call for call in calls(mod) if call.op.name == name]
    values = [[arg for arg in (*call.args, call) if isinstance(arg.ty, relax.TensorType)] for call in own]
    return [tuple(str(value.ty.dtype) for value in each) for each in values]


def dense(data: NDArray[Any], weight: NDArray[Any], of_data: Grid, of_weight: Grid) -> tvm.IRModule:
    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        left = builder.emit(dequantize(x, of_data, str(data.dtype)))
        right = builder.emit(dequantize(relax.const(weight), of_weight, str(weight.dtype), axis=1))
        return relax.op.matmul(left, right)

    return network(data, body)


def test_a_product_is_worked_by_hand() -> None:
    data = np.array([[1, 2, 3, 4]], "uint8")
    weight = np.array([[1, -1], [0, 2], [-3, 0], [1, 1]], "int8")
    mod = in_integers(dense(data, weight, (0.5, 2), (np.array([0.1, 1.0]), np.array([0, 0]))))
    # (1-2, 2-2, 3-2, 4-2) = (-1, 0, 1, 2): -1 - 3 + 2 = -2 and 1 + 2 = 3, by 0.5 * 0.1 and 0.5 * 1.
    np.testing.assert_allclose(run(mod, data), [[-0.1, 1.5]], rtol=1e-6)
    assert types_of(mod, "relax.matmul") == [("uint8", "int8", "int32")]
    assert mod.attrs[FLOAT_PRODUCTS] == 0


def test_rounding_is_to_even_and_saturates() -> None:
    data = np.array([[1, 3, 5, 7, 200]], "uint8")

    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        return quantize(builder.emit(dequantize(x, (1.0, 1), "uint8")), (2.0, 0))

    # (0, 2, 4, 6, 199) / 2, then halves of (1, 2, 3) of another grid.
    assert run(in_integers(network(data, body)), data).tolist() == [[0, 1, 2, 3, 100]]

    def halves(builder: relax.BlockBuilder, x: Any) -> Any:
        return quantize(builder.emit(dequantize(x, (0.5, 0), "uint8")), (1.0, 250))

    # 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, 3.5 -> 4, 100 is over the range.
    assert run(in_integers(network(data, halves)), data).tolist() == [[250, 252, 252, 254, 255]]


def test_uint8_weights_around_128_are_shifted_to_int8() -> None:
    data, weight = np.array([[4, 1]], "uint8"), np.array([[130], [127]], "uint8")
    mod = in_integers(dense(data, weight, (1.0, 0), (1.0, 128)))
    assert run(mod, data).tolist() == [[4 * 2 - 1]]
    assert types_of(mod, "relax.matmul") == [("uint8", "int8", "int32")]


@pytest.mark.parametrize(
    ("weight", "of_weight"),
    [
        (np.ones((4, 2), "int8"), (1.0, 3)),  # a zero point of weights
        (np.ones((most_products("uint8", "int8") + 1, 1), "int8"), (1.0, 0)),  # sums over 32 bits
    ],
)
def test_a_product_that_integers_cannot_hold_stays_float32(weight: NDArray[Any], of_weight: Grid) -> None:
    data = np.ones((1, len(weight)), "uint8")
    mod = in_integers(dense(data, weight, (1.0, 0), of_weight))
    assert types_of(mod, "relax.matmul") == [("float32", "float32", "float32")]
    assert mod.attrs[FLOAT_PRODUCTS] == 1
    expected = (1 - of_weight[1]) * len(weight)
    np.testing.assert_array_equal(run(mod, data), np.full((1, weight.shape[1]), expected, "float32"))


def test_signed_activations_multiply_each_other() -> None:
    data = np.array([[[1, -2], [3, 4]]], "int8")

    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        value = builder.emit(dequantize(x, (0.5, 0), "int8"))
        return relax.op.matmul(value, value)

    mod = in_integers(network(data, body))
    assert types_of(mod, "relax.matmul") == [("int8", "int8", "int32")]
    np.testing.assert_allclose(run(mod, data), 0.25 * (data.astype(float) @ data))


def test_a_pool_moves_integers_and_equal_grids_cancel() -> None:
    data = np.arange(16, dtype="uint8").reshape(1, 1, 4, 4)

    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        value = builder.emit(dequantize(x, (0.3, 7), "uint8"))
        pooled = builder.emit(relax.op.nn.max_pool2d(value, [2, 2], [2, 2], padding=[1, 1, 1, 1]))
        return quantize(pooled, (0.3, 7))

    mod = in_integers(network(data, body))
    assert [call.op.name for call in calls(mod)] == ["relax.nn.max_pool2d"]
    assert run(mod, data).reshape(-1).tolist() == [0, 2, 3, 8, 10, 11, 12, 14, 15]


def test_each_reader_dequantises_so_that_integers_are_stored() -> None:
    data = np.arange(8, dtype="uint8").reshape(1, 8)

    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        value = builder.emit(dequantize(x, (0.5, 0), "uint8"))
        return relax.op.add(builder.emit(relax.op.exp(value)), builder.emit(relax.op.sin(value)))

    mod = in_integers(network(data, body))
    assert len(types_of(mod, "relax.astype")) == 2


def convolution(
    data: NDArray[Any],
    weight: NDArray[Any],
    bias: NDArray[Any],
    of_data: Grid,
    scales: NDArray[Any],
    of_output: Grid,
    **options: Any,
) -> tvm.IRModule:
    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        value = builder.emit(dequantize(x, of_data, str(data.dtype)))
        of_weight = scales, np.zeros_like(scales, "int8")
        kernel = builder.emit(dequantize(relax.const(weight), of_weight, "int8"))
        result = builder.emit(relax.op.nn.conv2d(value, kernel, **options))
        result = builder.emit(relax.op.add(result, relax.const(bias.reshape(1, -1, 1, 1))))
        return quantize(result, of_output)

    return network(data, body)


@settings(max_examples=12)
@given(st.data())
def test_the_integer_form_is_the_float_form_within_one_step(draw: st.DataObject) -> None:
    seed, groups, kernel, padding, stride = (
        draw.draw(st.integers(0, 2**31)),
        draw.draw(st.sampled_from([1, 1, 2])),
        draw.draw(st.sampled_from([1, 3])),
        draw.draw(st.integers(0, 2)),
        draw.draw(st.integers(1, 2)),
    )
    channels, zero, signed = (
        draw.draw(st.sampled_from([3, 4, 8])) * groups,
        draw.draw(st.integers(0, 255)),
        draw.draw(st.booleans()),
    )
    rng = np.random.default_rng(seed)
    dtype, low = ("int8", -128) if signed else ("uint8", 0)
    data = rng.integers(low, low + 256, (1, channels, 5, 6)).astype(dtype)
    weight = rng.integers(-127, 128, (4 * groups, channels // groups, kernel, kernel)).astype("int8")
    scales = rng.uniform(0.001, 0.1, len(weight)).astype("float32")
    bias, scale = rng.standard_normal(len(weight)).astype("float32"), np.float32(rng.uniform(0.01, 1))
    real = torch.nn.functional.conv2d(
        torch.from_numpy((data.astype(np.float64) - (zero + low)) * scale),
        torch.from_numpy(weight * scales.astype(np.float64).reshape(-1, 1, 1, 1)),
        torch.from_numpy(bias.astype(np.float64)),
        stride,
        padding,
        groups=groups,
    ).numpy()
    step = np.float32(max(np.abs(real).max() / 100, 1e-3))  # some outputs saturate
    expected = np.clip(np.rint(real / step) + 120, 0, 255)
    options = {"padding": padding, "strides": stride, "groups": groups}
    mod = convolution(data, weight, bias, (scale, zero + low), scales, (step, 120), **options)
    changed = in_integers(mod)
    assert [types[-1] for types in types_of(changed, "relax.nn.conv2d")] == ["int32"]
    assert np.abs(run(changed, data).astype(int) - expected).max() <= 1


def test_layers_of_one_shape_are_one_task_that_templates_know() -> None:
    data = np.zeros((1, 3, 8, 8), "uint8")

    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        for number, channels in enumerate((3, 16, 16)):
            value = builder.emit(dequantize(x, (0.1 + number, 0), "uint8"))
            weight = np.full((16, channels, 3, 3), number + 1, "int8")
            kernel = builder.emit(dequantize(relax.const(weight), (0.2 + number, 0), "int8"))
            result = builder.emit(relax.op.nn.conv2d(value, kernel, padding=1))
            x = builder.emit(quantize(result, (1.1 + number, 0)))
        return x

    lowered = lower(in_integers(network(data, body)), SERVER, Lowering())
    found = {
        var.name_hint: read_contraction(as_task_module(func))
        for var, func in lowered.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc) and "conv2d" in var.name_hint
    }
    assert len(found) == 2  # the first layer, and the others
    assert {task.types for task in found.values() if task} == {("uint8", "int8", "int32")}
    # Three input channels are filled up to four, as many products as the instruction adds at once.
    assert sorted(task.inner.extent for task in found.values() if task) == [4, 16]
