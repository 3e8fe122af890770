"""Tests of vectorised math functions: their accuracy, and code without a call for each element."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.vector_math import vectorise_math
from foretune.compiler.tvm_compat import as_task_module, parse_target, workload_hash
from foretune.inference import prepare_builder
from numpy.typing import NDArray
from support.torchless import without_torch
from tvm import te, tirx, topi
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("llvm")
LANES = 16
VALUES = np.concatenate(
    [np.linspace(-110, 95, 20_000), np.linspace(-6, 6, 20_000), np.geomspace(1e-30, 1, 480), [-0.0] * 16]
).astype(np.float32)
EXACT = {
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.fixture(autouse=True)
def vectorised() -> None:
    vectorise_math()


def scheduled(name: str, size: int, dtype: str, vectors: bool) -> tvm.IRModule:
    x = te.placeholder((size,), dtype=dtype, name="x")
    return in_vectors(as_task_module(te.create_prim_func([x, getattr(topi, name)(x)])), vectors)


def in_vectors(mod: tvm.IRModule, vectors: bool) -> tvm.IRModule:
    """The one block of a module that is left after inlining, in vectors if asked for."""
    schedule = Schedule(mod)
    *inner, block = schedule.get_child_blocks(schedule.get_sblock("root"))
    for one in inner:
        schedule.compute_inline(one)
    if vectors:
        (loop,) = schedule.get_loops(block)
        schedule.vectorize(schedule.split(loop, [None, LANES])[1])
    return schedule.mod


def computed(name: str, values: NDArray, vectors: bool = True) -> NDArray:
    return ran(scheduled(name, len(values), str(values.dtype), vectors), values)


def ran(mod: tvm.IRModule, values: NDArray) -> NDArray:
    arguments = [tvm.runtime.tensor(values), tvm.runtime.tensor(np.zeros_like(values))]
    tvm.compile(mod, target=TARGET)["main"](*arguments)
    return arguments[1].numpy()


@pytest.mark.parametrize("vectors", [False, True], ids=["scalars", "vectors"])
@pytest.mark.parametrize("name", EXACT)
def test_values_are_those_of_the_function(name: str, vectors: bool) -> None:
    with np.errstate(over="ignore"):
        want = EXACT[name](VALUES.astype(np.float64))
        normal = (want > np.finfo(np.float32).tiny) & (want < np.finfo(np.float32).max) | (want < 0)
        infinite = np.isinf(want.astype(np.float32))
    got = computed(name, VALUES, vectors).astype(np.float64)
    np.testing.assert_allclose(got[normal], want[normal], rtol=2.5e-7 if name == "exp" else 4e-7)
    np.testing.assert_allclose(got[~infinite & ~normal], want[~infinite & ~normal], atol=1.2e-38)
    assert np.isinf(got[infinite]).all()


@pytest.mark.parametrize("name", EXACT)
def test_infinities_and_nan_are_as_of_a_c_library(name: str) -> None:
    values = np.resize(np.array([np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32), 4 * LANES)
    with np.errstate(over="ignore"):
        want = EXACT[name](values.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(computed(name, values), want, rtol=2e-7)


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_an_odd_function_keeps_within_one_and_its_sign(name: str) -> None:
    got = computed(name, VALUES)
    assert np.abs(got).max() <= 1
    assert (np.signbit(got) == np.signbit(VALUES)).all()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float64", 1e-12)])
def test_other_types_are_computed_as_before(name: str, dtype: str, tolerance: float) -> None:
    if (name, dtype) == ("erf", "float16"):
        pytest.skip("no target has this function: it is computed in float32")
    values = np.linspace(-9, 9, 4_000).astype(dtype)
    want = EXACT[name](values.astype(np.float64))
    np.testing.assert_allclose(computed(name, values, vectors=False), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("vectors", [False, True], ids=["scalars", "vectors"])
def test_a_function_of_a_function(vectors: bool) -> None:
    """TVM refuses bindings inside of the value of a binding, which are in LSTM's cells, for example."""
    x = te.placeholder((1024,), name="x")
    gated = topi.tanh(topi.sigmoid(x) * x + topi.sigmoid(x) * topi.tanh(x))
    values, want = np.linspace(-9, 9, 1024).astype(np.float32), 1 / (1 + np.exp(-np.linspace(-9, 9, 1024)))
    got = ran(in_vectors(as_task_module(te.create_prim_func([x, gated])), vectors), values)
    np.testing.assert_allclose(got, np.tanh(want * (values + np.tanh(values))), rtol=2e-6, atol=1e-7)


def test_a_function_in_a_branch_is_computed_there_alone() -> None:
    """The other branch would read before the array."""
    x = te.placeholder((64,), name="x")
    moved = te.compute(
        x.shape, lambda i: te.tanh(te.if_then_else(i >= 32, te.exp(x[i - 32]), tirx.const(0.0)))
    )
    values = np.linspace(-2, 2, 64).astype(np.float32)
    got = ran(as_task_module(te.create_prim_func([x, moved])), values)
    np.testing.assert_allclose(got, np.tanh(np.r_[np.zeros(32), np.exp(values[:32])]), rtol=2e-6)


@pytest.mark.parametrize("name", EXACT)
def test_no_element_is_a_call_of_the_c_library(name: str) -> None:
    code = tvm.compile(scheduled(name, 1024, "float32", True), target=TARGET).mod.inspect_source("ll")
    called = [line for line in code.splitlines() if " call " in line]
    assert not [line for line in called if any(f in line for f in ("expf", "tanhf", "erff", "llvm.exp"))]
    assert f"<{LANES} x float>" in code


def test_metaschedules_own_builder_is_prepared_by_its_initializer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", without_torch()["PYTHONPATH"])
    # Without it, the worker takes most of the 30 s, or all of them, before it builds.
    builder = ms.builder.LocalBuilder(max_workers=1, initializer=prepare_builder)
    (built,) = builder.build([ms.builder.BuilderInput(scheduled("exp", 1024, "float32", True), TARGET)])
    assert built.error_msg is None
    assert b"expf" not in Path(built.artifact_path).read_bytes()


COMPILE = """
import os, sys
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.tvm_compat import as_task_module, parse_target
from foretune.inference.deploy.compile import compile_network
from tvm import relax, te, topi

x = te.placeholder((1024,), name="x")
program = as_task_module(te.create_prim_func([x, topi.exp(x)]))
builder = relax.BlockBuilder()
values = relax.Var("values", relax.TensorType((1024,), "float32"))
with builder.function("main", [values]):
    with builder.dataflow():
        output = builder.emit_output(relax.op.exp(values))
    builder.emit_func_output(output)
target = parse_target("llvm")
for compiled in (
    lambda: compile_module(program, target),
    lambda: compile_network(builder.get(), target).executable,
):
    path = sys.argv.pop()
    if not os.fork():  # each in a process that has compiled nothing else
        compiled().export_library(path)
        os._exit(0)
    os.wait()
"""


def test_what_foretune_compiles_has_it_in_a_process_that_did_not_ask(tmp_path: Path) -> None:
    libraries = [tmp_path / "program.so", tmp_path / "network.so"]
    subprocess.run([sys.executable, "-c", COMPILE, *libraries], check=True, timeout=300)
    for library in libraries:
        assert b"expf" not in library.read_bytes()


def test_programs_themselves_stay_as_they_are() -> None:
    mod = scheduled("erf", 1024, "float32", True)
    before = workload_hash(mod)
    tvm.compile(mod, target=TARGET)
    assert workload_hash(mod) == before
    assert "tirx.erf" in mod.script() or "T.erf" in mod.script()


def test_roundings_run_in_vectors() -> None:
    x = te.placeholder((1024,), "float32", name="x")
    rounded = te.compute((1024,), lambda i: te.nearbyint(x[i]), name="rounded")
    schedule = Schedule(as_task_module(te.create_prim_func([x, rounded])))
    (loop,) = schedule.get_loops(schedule.get_sblock("rounded"))
    schedule.vectorize(schedule.split(loop, [None, LANES])[1])
    executable = tvm.compile(schedule.mod, target=TARGET)
    assert f"llvm.nearbyint.v{LANES}f32" in executable.mod.inspect_source("ll")
    values = np.linspace(-9, 9, 1024, dtype=np.float32).round(1)
    found = tvm.runtime.empty(values.shape, "float32")
    executable["main"](tvm.runtime.tensor(values), found)
    np.testing.assert_array_equal(found.numpy(), np.rint(values))  # ties to even
