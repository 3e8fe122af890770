"""Recognition of operators in TIR, with the settings that built it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from foretune.compiler.operators import OPERATOR_SETTINGS, OperatorSettings
from foretune.compiler.operators.anchor import describe
from foretune.compiler.task import operator_types
from foretune.compiler.tvm_compat import as_task_module
from support.operators import EXAMPLES, SPECIAL_EXAMPLES
from tvm import te, topi

READ = [
    name
    for name, cls in OPERATOR_SETTINGS.items()
    if cls.read_tir.__func__ is not OperatorSettings.read_tir.__func__
]
"""Operators whose settings are read back; of the others only the type."""


def test_settings_of_the_shipped_operators_are_read() -> None:
    assert {
        "conv1d",
        "conv2d",
        "group_conv2d",
        "depthwise_conv2d",
        "conv3d",
        "group_conv3d",
        "conv1d_transpose",
        "conv2d_transpose",
        "dense",
        "batch_matmul",
        "softmax",
        "layer_norm",
        "group_norm",
        "pool2d",
    } <= {*READ}


def variants(op: OperatorSettings) -> list[OperatorSettings]:
    """The operator in each layout and mode, with its last epilogue, and as int8 or float16."""
    return [
        op,
        replace(op, epilogue=op.epilogues[-1]),
        replace(op, dtype=op.dtypes[-1]),
        *(replace(op, layout=layout) for layout in getattr(op, "layouts", ())),
        *(replace(op, mode=mode) for mode in getattr(op, "modes", ())),
        *([replace(op, transpose_right=True)] if hasattr(op, "transpose_right") else []),
        *([replace(op, groups=2)] if hasattr(op, "groups") else []),
        *([replace(op, prepack=True)] if op.packable else []),
    ]


@pytest.mark.parametrize("operator", READ)
def test_settings_are_read_back_from_tir(operator: str) -> None:
    for op in variants(EXAMPLES[operator]):
        expected = op.to_dict()
        del expected["epilogue"]
        assert describe(as_task_module(op.prim_func())) == (operator, expected)


@pytest.mark.parametrize(
    "op", [op for op in SPECIAL_EXAMPLES if op.operator in READ], ids=lambda op: f"{op.operator}-{op.label}"
)
def test_corner_cases_are_read_back(op: OperatorSettings) -> None:
    expected = op.to_dict()
    del expected["epilogue"]
    assert describe(as_task_module(op.prim_func())) == (op.operator, expected)


@pytest.mark.parametrize(
    ("operator", "category"),
    [
        ("capsule_conv2d", "capsule_conv2d"),
        ("conv2d_winograd", "conv2d_winograd"),
        ("batch_norm", "other"),
        ("frobenius_norm", "other"),
        ("reduction", "other"),
    ],
)
def test_the_rest_lists_its_arguments(operator: str, category: str) -> None:
    op = EXAMPLES[operator]
    described, settings = describe(as_task_module(op.prim_func()))
    assert described == category and category in operator_types()
    first = op.tensors()[0]
    shape = [int(extent) for extent in first.shape]
    assert settings["arguments"][0] == {"shape": shape, "dtype": str(first.dtype)}


def function(*tensors: te.Tensor) -> tvm.IRModule:
    return as_task_module(te.create_prim_func(list(tensors), index_dtype_override="int64"))


def test_relatives_of_known_operators_keep_their_category() -> None:
    image = te.placeholder((1, 4, 6, 6), name="image")
    assert describe(function(image, topi.nn.softmax(image, axis=1)))[0] == "softmax"
    assert describe(function(image, topi.nn.adaptive_pool(image, (1, 1), "avg")))[0] == "pool"
    dilated = topi.nn.pool2d(image, [2, 2], [1, 1], [2, 2], [0, 0, 0, 0], "max")
    assert describe(function(image, dilated))[0] == "pool"
    assert describe(function(image, topi.nn.relu(image)))[0] == "elementwise"
    video, weight = te.placeholder((1, 4, 5, 6, 7), name="video"), te.placeholder((4,), name="weight")
    assert (
        describe(function(video, weight, topi.nn.group_norm(video, weight, weight, 2, 1, [2, 3, 4])))[0]
        == "norm"
    )


def convolved(size: int, padding: list[int], stride: int) -> tvm.IRModule:
    """3x3 convolution of a square image; padding is top, left, bottom and right."""
    image, kernel = (
        te.placeholder((1, 4, size, size), name="image"),
        te.placeholder((5, 4, 3, 3), name="kernel"),
    )
    output = topi.nn.conv2d(image, kernel, stride, padding, 1, "NCHW", "OIHW", "float32")
    return function(image, kernel, output)


@pytest.mark.parametrize("padding", [[0, 0, 1, 1], [2, 2, 0, 0], [0, 1, 0, 0]], ids=str)
def test_padding_that_differs_between_the_sides_is_no_setting(padding: list[int]) -> None:
    operator, described = describe(convolved(6, padding, 1))
    assert operator == "conv2d" and list(described) == ["arguments"]
    image = te.placeholder((1, 4, 6, 6), name="image")
    assert (
        describe(function(image, topi.nn.pool2d(image, [3, 3], [1, 1], [1, 1], padding, "max")))[0] == "pool"
    )


def test_padding_that_no_window_reads_makes_no_difference() -> None:
    """The windows of 6 pixels begin at -1, 1 and 3, and the last ends at 5."""
    for padding in ([1, 1, 1, 1], [1, 1, 0, 0]):
        settings = describe(convolved(6, padding, 2))[1]
        assert (settings["padding"], settings["stride"]) == ([1, 1], [2, 2])


def test_a_single_output_has_the_smallest_stride_that_leaves_it_single() -> None:
    for size, padding, stride in ((3, 0, 1), (4, 0, 2), (2, 1, 2)):  # with stride 1 the last two have four
        settings = describe(convolved(size, [padding] * 4, 2))[1]
        assert (settings["padding"], settings["stride"]) == ([padding] * 2, [stride] * 2)


def test_groups_that_no_operator_has_are_not_read() -> None:
    volume = te.placeholder((1, 4, 5, 5, 5), name="volume")
    image = te.placeholder((1, 4, 6, 6), name="image")
    kernel = te.placeholder((4, 2, 3, 3), name="kernel")
    transposed = topi.nn.group_conv2d_transpose_nchw(image, kernel, [1, 1], [0] * 4, "float32", [0, 0], 2)
    assert describe(function(image, kernel, transposed))[0] == "other"
    cube = te.placeholder((4, 2, 3, 3, 3), name="cube")
    upsampled = topi.nn.conv3d_transpose_ncdhw(volume, cube, [1] * 3, [0] * 6, "float32", [0] * 3)
    assert describe(function(volume, cube, upsampled))[0] == "other"
