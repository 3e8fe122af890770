"""Rounding to bfloat16 by an instruction: where it is, and that numbers stay what they are."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.codegen.rounding import with_integer_rounding, with_native_rounding
from foretune.compiler.targets import traits
from foretune.compiler.tvm_compat import as_task_module, parse_target
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

pytestmark = pytest.mark.cpu

ZEN_4 = parse_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})
WITHOUT = parse_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
HERE = parse_target("llvm")


def rounding(size: int, lanes: int) -> tvm.IRModule:
    """Numbers stored as bfloat16, so many at once."""
    source = te.placeholder((size,), "float32", name="source")
    stored = te.compute((size,), lambda i: source[i].astype("bfloat16"), name="stored")
    sch = Schedule(as_task_module(te.create_prim_func([source, stored])))
    (loop,) = sch.get_loops(sch.get_sblock("stored"))
    if lanes > 1:
        sch.vectorize(sch.split(loop, [None, lanes])[1])
    return sch.mod


def instructions(mod: tvm.IRModule, target: tvm.target.Target) -> int:
    assembly = compile_module(mod, target).mod.inspect_source("s")
    return len(re.findall(r"vcvtneps2bf16", assembly))


@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
def test_the_target_decides(lanes: int) -> None:
    assert instructions(rounding(256, lanes), ZEN_4) > 0
    assert instructions(rounding(256, lanes), WITHOUT) == 0


@pytest.mark.skipif(not traits(HERE).converts("bfloat16"), reason="this CPU has no avx512bf16")
@pytest.mark.parametrize("lanes", [1, 16, 32])
def test_numbers_are_rounded_to_the_nearest_and_ties_to_even(lanes: int) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    bits[::3] = bits[::3] & 0xFFFF0000 | 0x8000  # as near to the number below as to that above
    given = bits.view(np.float32)
    given[:5] = [np.inf, -np.inf, 0.0, -0.0, np.finfo(np.float32).max]
    given[np.isnan(given) | (np.abs(given) < np.finfo(np.float32).tiny)] = 1.0
    found = tvm.runtime.empty(given.shape, "bfloat16")
    compile_module(rounding(len(given), lanes), HERE).jit()["main"](tvm.runtime.tensor(given), found)
    with np.errstate(over="ignore"):
        expected = given.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.numpy().view(np.uint16), expected.view(np.uint16))


def test_other_casts_stay_as_they_are() -> None:
    value = tirx.Var("value", "float32")
    bits = tirx.reinterpret("uint32", value)

    def rounded(half: int) -> tirx.PrimFunc:
        odd = tirx.BitwiseAnd(tirx.RShift(bits, tirx.const(16, "uint32")), tirx.const(1, "uint32"))
        total = bits + (odd + tirx.const(half, "uint32"))
        cast = tirx.Cast("uint16", tirx.RShift(total, tirx.const(16, "uint32")))
        return tirx.PrimFunc([value], tirx.Evaluate(cast)).with_attr("target", ZEN_4)

    assert "foretune_rounded_1" in str(with_native_rounding(rounded(0x7FFF)))
    for func in (rounded(0x8000), rounded(0x7FFF).with_attr("target", WITHOUT)):  # upwards; no instruction
        assert tvm_ffi.structural_equal(with_native_rounding(func), func)


SERVER = parse_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
SIZE = 256


def quantising(dtype: str, zero: int, clip: tuple[int, int], lanes: int, back: bool = False) -> tvm.IRModule:
    """round(x) + zero, clipped and cast to `dtype`; read `back`, half of it is added to x."""

    def quantised(x: tirx.Expr) -> tirx.Expr:
        whole = te.nearbyint(x)
        value = whole + tirx.const(float(zero), "float32") if zero else whole
        low, high = (tirx.const(float(bound), "float32") for bound in clip)
        narrow = te.max(te.min(value, high), low).astype(dtype)
        return x + narrow.astype("float32") * tirx.const(0.5, "float32") if back else narrow

    source = te.placeholder((SIZE,), "float32", name="source")
    found = te.compute((SIZE,), lambda i: quantised(source[i]), name="found")
    sch = Schedule(as_task_module(te.create_prim_func([source, found])))
    (loop,) = sch.get_loops(sch.get_sblock("found"))
    if lanes > 1:
        sch.vectorize(sch.split(loop, [None, lanes])[1])
    return sch.mod


def assembly(mod: tvm.IRModule) -> str:
    return str(compile_module(mod, SERVER).mod.inspect_source("s"))


@pytest.mark.parametrize("zero", [0, 7])
def test_a_conversion_rounds(zero: int) -> None:
    text = assembly(quantising("uint8", zero, (0, 255), lanes=16))
    assert re.search(r"\bvcvtps2dq\b", text) and not re.search(r"\bvrndscaleps\b", text)
    assert not re.search(r"\bvcvttps2u?dq\b", text)


def test_a_value_that_is_read_again_stays_a_float() -> None:
    text = assembly(quantising("uint8", 3, (0, 255), lanes=16, back=True))
    assert not re.search(r"\bvcvt\w+", text)


@pytest.mark.parametrize(("dtype", "clip"), [("uint8", (-1, 255)), ("uint8", (0, 256)), ("int8", (0, 255))])
def test_values_that_the_integers_do_not_hold_stay_as_they_are(dtype: str, clip: tuple[int, int]) -> None:
    func = quantising(dtype, 0, clip, lanes=1)["main"].with_attr("target", SERVER)
    assert with_integer_rounding(func).same_as(func)


def test_a_gpu_has_its_own_conversions() -> None:
    func = quantising("uint8", 0, (0, 255), lanes=1)["main"].with_attr("target", Target("nvidia/nvidia-h100"))
    assert with_integer_rounding(func).same_as(func)


@given(
    dtype=st.sampled_from(["uint8", "int8"]),
    zero=st.integers(-20, 20),
    narrow=st.integers(0, 60),
    lanes=st.sampled_from([1, 16]),
    back=st.booleans(),
)
def test_values_are_those_of_round_and_clip(
    dtype: str, zero: int, narrow: int, lanes: int, back: bool
) -> None:
    limits = np.iinfo(dtype)
    clip = int(limits.min) + narrow, int(limits.max) - narrow
    values = np.linspace(-300, 300, SIZE, dtype=np.float32)
    values[::2] = np.floor(values[::2]) + 0.5  # as near to the integer below as to that above
    values[:4] = [1e9, -1e9, 3e38, -3e38]
    narrow_values = np.clip(np.rint(values) + np.float32(zero), *clip).astype(dtype)
    expected = values + narrow_values.astype(np.float32) / 2 if back else narrow_values
    found = tvm.runtime.empty(expected.shape, str(expected.dtype))
    run = compile_module(quantising(dtype, zero, clip, lanes, back), HERE).jit()["main"]
    run(tvm.runtime.tensor(values), found)
    np.testing.assert_array_equal(found.numpy(), expected)
