"""Recognition of operators in TIR, with the settings that built it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from foretune.dataset.anchor import describe
from foretune.dataset.operators import OPERATOR_SETTINGS, OperatorSettings
from foretune.dataset.task import operator_types
from foretune.dataset.tvm_compat import as_task_module
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


def test_groups_that_no_operator_has_are_not_read() -> None:
    volume = te.placeholder((1, 4, 5, 5, 5), name="volume")
    image = te.placeholder((1, 4, 6, 6), name="image")
    kernel = te.placeholder((4, 2, 3, 3), name="kernel")
    transposed = topi.nn.group_conv2d_transpose_nchw(image, kernel, [1, 1], [0] * 4, "float32", [0, 0], 2)
    assert describe(function(image, kernel, transposed))[0] == "other"
    cube = te.placeholder((4, 2, 3, 3, 3), name="cube")
    upsampled = topi.nn.conv3d_transpose_ncdhw(volume, cube, [1] * 3, [0] * 6, "float32", [0] * 3)
    assert describe(function(volume, cube, upsampled))[0] == "other"
