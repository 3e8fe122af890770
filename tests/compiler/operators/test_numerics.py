"""Every operator equals its PyTorch reference, in each layout, data type and epilogue that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from foretune.compiler.operators import (
    CapsuleConv2d,
    Conv1d,
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    GroupConv2d,
    GroupConv3d,
    OperatorSettings,
    SettingsError,
    TransposedConv1d,
    TransposedConv2d,
    WinogradConv2d,
    to_task,
)
from foretune.compiler.operators.convolutions.winograd import transform_weight
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from support.operators import EXAMPLES, SPECIAL_EXAMPLES, pytorch_output, random_inputs, run

TOLERANCE = {
    "float32": {"rtol": 1e-4, "atol": 1e-4},
    # Sums of tens of products with 11 bits each.
    "float16": {"rtol": 2e-2, "atol": 5e-2},
    "int8": {"rtol": 0, "atol": 0},
    # Sums in float32, rounded once to 8 bits.
    "bfloat16": {"rtol": 2**-8, "atol": 1e-4},
}


def check(op: OperatorSettings) -> None:
    task = to_task(op)
    inputs = random_inputs(op, task)
    expected = pytorch_output(op, inputs).numpy()
    actual = run(task, inputs)
    stored = op.dtype if op.dtype == "bfloat16" else op.accumulator
    assert actual.shape == expected.shape and str(actual.dtype) == stored
    np.testing.assert_allclose(actual.astype(np.float64), expected, **TOLERANCE[op.dtype])


def variants(op: OperatorSettings) -> list[OperatorSettings]:
    """Each epilogue in the default layout and float32, then each other layout, data type and mode."""
    epilogues = [replace(op, epilogue=epilogue) for epilogue in op.epilogues]
    richest = op.epilogues[-1]
    layouts = [replace(op, layout=layout, epilogue=richest) for layout in getattr(op, "layouts", ())[1:]]
    integers = next(e for e in ("bias_relu", "relu", "none") if e in op.epilogues)
    dtypes = [
        replace(op, dtype=dtype, epilogue=integers if dtype == "int8" else richest) for dtype in op.dtypes[1:]
    ]
    modes = [replace(op, mode=mode) for mode in getattr(op, "modes", ())[1:]]
    return [*epilogues, *layouts, *dtypes, *modes]


def name(op: OperatorSettings) -> str:
    parts = [op.operator, getattr(op, "layout", ""), getattr(op, "mode", ""), op.epilogue, op.dtype]
    return "-".join(filter(None, parts))


@pytest.mark.parametrize("op", [v for op in EXAMPLES.values() for v in variants(op)], ids=name)
def test_output_equals_pytorch(op: OperatorSettings) -> None:
    check(op)


@pytest.mark.parametrize("op", SPECIAL_EXAMPLES, ids=lambda op: f"{op.operator}-{op.label}")
def test_special_settings_equal_pytorch(op: OperatorSettings) -> None:
    check(op)


# Convolutions over wide settings. Data are small integers: their sums are exact and need no tolerance.


def axis_settings(axes: int) -> st.SearchStrategy[dict[str, Any]]:
    """Settings of windows with one to three elements per axis."""

    def per_axis(smallest: int, most: int) -> st.SearchStrategy[Any]:
        number = st.integers(smallest, most)
        return number if axes == 1 else st.tuples(*[number] * axes)

    return st.fixed_dictionaries(
        {
            "batch": st.integers(1, 2),
            "kernel": per_axis(1, 3),
            "stride": per_axis(1, 3),
            "padding": per_axis(0, 2),
        }
    )


@st.composite
def convolutions(draw: st.DrawFn) -> OperatorSettings:
    cls = draw(
        st.sampled_from(
            [
                Conv1d,
                Conv2d,
                Conv3d,
                DepthwiseConv2d,
                GroupConv2d,
                GroupConv3d,
                CapsuleConv2d,
                TransposedConv1d,
                TransposedConv2d,
            ]
        )
    )
    size = st.integers(5, 7) if len(cls.axes) < 3 else st.integers(3, 4)
    values = draw(axis_settings(len(cls.axes))) | {axis: draw(size) for axis in cls.axes}
    grouped = cls in (GroupConv2d, GroupConv3d)
    groups = draw(st.integers(2, 3)) if grouped else 1
    values["in_channels"] = groups * draw(st.integers(1, 2))
    if cls is not DepthwiseConv2d:
        values["out_channels"] = groups * draw(st.integers(1, 2))
    if grouped:
        values["groups"] = groups
    values["layout"] = draw(st.sampled_from(cls.layouts))
    try:
        return cls(**values, dtype="int8")
    except SettingsError:  # a window that its input cannot hold
        reject()


@given(convolutions())
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.filter_too_much])
def test_any_convolution_equals_pytorch(op: OperatorSettings) -> None:
    check(op)


@given(
    height=st.integers(1, 11),
    width=st.integers(1, 11),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
@settings(deadline=None, max_examples=6)
def test_winograd_equals_pytorch_for_any_size(height: int, width: int, padding: tuple[int, int]) -> None:
    height, width = max(height, 3 - 2 * padding[0]), max(width, 3 - 2 * padding[1])
    check(WinogradConv2d(batch=2, in_channels=2, height=height, width=width, out_channels=3, padding=padding))


def test_a_winograd_weight_by_hand() -> None:
    # G has rows (1/4, 0, 0) and (-1/6, -1/6, -1/6): a weight of ones has 1/16 in the corner, and next to it
    # 1/4 times -3/6.
    transformed = transform_weight(np.ones((3, 3, 1, 1)))[..., 0, 0]
    assert transformed.shape == (6, 6)
    assert transformed[0, 0] == pytest.approx(1 / 16) and transformed[0, 1] == pytest.approx(-1 / 8)
