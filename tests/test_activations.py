"""Activations as arithmetic: as exact as float32 can tell, and without a call for each element."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from foretune.dataset.operators import activations
from foretune.dataset.tvm_compat import as_task_module, parse_target
from tvm import te

TARGET = parse_target("llvm")
VALUES = np.concatenate([np.linspace(-100, 100, 20_001), np.linspace(-1, 1, 20_001), [0.0]])

EXACT = {
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (0.5 + 0.5 * np.vectorize(math.erf)(x * 0.5**0.5)),
}


def executable(name: str, size: int, dtype: str) -> tvm.runtime.Executable:
    x = te.placeholder((size,), dtype=dtype, name="x")
    func = te.create_prim_func([x, getattr(activations, name)(x)])
    return tvm.compile(as_task_module(func), target=TARGET)


def computed(name: str, values: np.ndarray) -> np.ndarray:
    arguments = [tvm.runtime.tensor(values), tvm.runtime.tensor(np.zeros_like(values))]
    executable(name, len(values), str(values.dtype))["main"](*arguments)
    return arguments[1].numpy().astype(np.float64)


@pytest.mark.parametrize("name", EXACT)
def test_values_are_those_of_the_function(name: str) -> None:
    # Beyond, an exponential is no float32.
    values = np.clip(VALUES, -87, 88).astype(np.float32)
    want = EXACT[name](values.astype(np.float64))
    got = computed(name, values)
    # What the error function misses by 4e-7 beside -1, a GELU multiplies by half of its argument.
    np.testing.assert_allclose(got, want, rtol=5e-7, atol=1.2e-6 if name == "gelu" else 4e-7)


def test_an_exponential_keeps_its_relative_error_where_it_is_small() -> None:
    values = np.linspace(-80, 0, 10_001).astype(np.float32)
    np.testing.assert_allclose(computed("exp", values), np.exp(values.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize("name", EXACT)
def test_float16_is_computed_in_float32(name: str) -> None:
    values = np.clip(VALUES, -9, 9).astype(np.float16)
    want = EXACT[name](values.astype(np.float64))
    np.testing.assert_allclose(computed(name, values), want, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("name", EXACT)
def test_no_element_is_a_call_of_the_c_library(name: str) -> None:
    code = executable(name, 1024, "float32").mod.inspect_source("ll")
    called = [line for line in code.splitlines() if " call " in line]
    assert not [line for line in called if any(f in line for f in ("expf", "tanhf", "erff", "llvm.exp"))]
