"""A shape is what a task computes, whatever it is fused with."""

import json

from foretune.dataset.records import TaskRow
from foretune.dataset.task_shapes import shape_hash

DENSE = {"rows": 8, "in_features": 4}
CONV = {"kernel": [3, 3]}


def shape_of(operator, settings):
    return shape_hash(TaskRow("0" * 16, "name", operator, json.dumps(settings), "operator", 1.0, ""))


def test_epilogues_are_no_part_of_a_shape():
    with_bias = shape_of("dense", {**DENSE, "epilogue": "bias"})
    assert with_bias == shape_of("dense", {**DENSE, "epilogue": "none"}) == shape_of("dense", DENSE)
    assert len(with_bias) == 16


def test_settings_and_operators_are():
    shapes = {
        shape_of("dense", DENSE),
        shape_of("dense", {**DENSE, "rows": 9}),
        shape_of("batch_matmul", DENSE),
    }
    assert len(shapes) == 3


def test_a_task_without_settings_is_a_shape_of_its_own():
    imported = TaskRow("5" * 16, "main", "matmul", "{}", "imported", 1.0, "")
    assert shape_hash(imported) == "5" * 16


def test_channels_come_first_where_nothing_is_said():
    assert shape_of("conv2d", CONV) == shape_of("conv2d", {**CONV, "layout": "NCHW"})
    assert shape_of("conv2d", CONV) != shape_of("conv2d", {**CONV, "layout": "NHWC"})
