"""Tests of the tolerance for outputs, by data type."""

import numpy as np
import pytest
import tvm
from foretune.dataset.measure.worker.reference import (
    host_arguments,
    load_expected,
    mismatch,
    save_expected,
    sentinel_output,
)
from hypothesis import given
from hypothesis import strategies as st
from support.programs import Doubled
from tvm.script import ir as I
from tvm.script import tirx as T


@pytest.mark.parametrize(
    ("dtype", "got", "right"),
    [
        # The largest value is 2, so the tolerance is 0.002 in float32 and 0.06 in float16.
        ("float32", [1.0019, -2.0], True),
        ("float32", [1.0021, -2.0], False),
        ("float16", [1.05, -2.0], True),
        ("float16", [1.07, -2.0], False),
        ("bfloat16", [1.19, -2.0], True),
        ("bfloat16", [1.21, -2.0], False),
        ("float64", [1.00001, -2.0], False),
        ("int8", [1, -2], True),
        ("int8", [1, -1], False),
        ("float32", [np.nan, -2.0], False),
        ("float32", [np.inf, -2.0], False),
    ],
)
def test_tolerance_is_relative_to_the_largest_value(dtype, got, right):
    want = np.array([1.0, -2.0])
    assert (mismatch(np.array(got), want, dtype) is None) == right


def test_a_mismatch_says_where_and_how_much():
    found = mismatch(np.zeros((2, 2)), np.array([[0.0, 0.0], [0.0, 3.0]]), "float32")
    assert found == ("1 of 4 values differ from the unscheduled program, the first at (1, 1): 0 instead of 3")


def test_values_that_are_not_finite_must_be_the_same():
    special = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert mismatch(special, special, "float32") is None
    assert mismatch(special[[0, 2, 1, 3]], special, "float32") is not None


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8), st.data())
def test_one_value_that_is_off_by_more_than_the_tolerance_is_found(values, data):
    want = np.array(values, dtype=np.float32)
    got = want.copy()
    scale = np.abs(want).max()
    got[data.draw(st.integers(0, len(values) - 1))] += np.float32(0.01) * scale + np.float32(1e-3)
    assert mismatch(want, want, "float32") is None
    assert mismatch(got, want, "float32") is not None


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool"]
)
def test_what_was_left_out_is_never_right(dtype):
    (values,) = host_arguments([((64,), dtype)])
    assert str(values.dtype) == dtype
    assert mismatch(sentinel_output((64,), dtype), values, dtype) is not None


def test_arguments_are_the_same_at_each_call_and_indices_are_zero():
    buffers = [((8, 8), "float32"), ((8,), "int32"), ((8,), "int8")]
    first, second = host_arguments(buffers), host_arguments(buffers)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert not first[1].any()
    assert first[2].any()


def test_the_reference_keeps_what_it_wrote(tmp_path):
    save_expected(tvm.ir.save_json(Doubled), tmp_path / "out.npz")
    expected = load_expected(tmp_path / "out.npz")
    (source, _) = host_arguments([((1024,), "float32"), ((1024,), "float32")])
    assert list(expected) == [1]
    np.testing.assert_array_equal(expected[1], source * 2)


@I.ir_module
class Halves:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((16,), "float16"), b: T.Buffer((16,), "float16")):
        for i in range(16):
            with T.sblock("b"):
                v = T.axis.spatial(16, i)
                b[v] = a[v] * T.float16(0.5)


def test_half_precision_runs_on_the_host(tmp_path):
    save_expected(tvm.ir.save_json(Halves), tmp_path / "out.npz")
    (source, _) = host_arguments([((16,), "float16"), ((16,), "float16")])
    np.testing.assert_array_equal(load_expected(tmp_path / "out.npz")[1], source / 2)
