"""Shapes of tasks, which ignore layout, data type and epilogue."""

import json

import pytest
from foretune.compiler.operators import BatchMatmul, Conv2d, Dense, settings_from_dict
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.task_shapes import shape_hash, shape_of
from foretune.models.checkpoints.checkpoint import load_checkpoint, shipped_checkpoints
from support.paths import ROOT

from benchmarks.trained_on import CPUS

DENSE = {"rows": 8, "in_features": 4, "out_features": 2}
CONV = {"batch": 1, "in_channels": 3, "height": 9, "width": 7, "out_channels": 4, "kernel": [3, 3]}
PRODUCT = {"batch": 2, "rows": 3, "inner": 4, "columns": 5}


def row(operator, settings):
    return TaskRow("0" * 16, "name", operator, json.dumps(settings), "operator", 1.0, "")


def hash_of(operator, **settings):
    return shape_hash(row(operator, settings))


def test_epilogue_and_packing_are_no_part_of_a_shape():
    with_bias = hash_of("dense", **DENSE, epilogue="bias")
    assert with_bias == hash_of("dense", **DENSE, epilogue="none") == hash_of("dense", **DENSE)
    assert with_bias == hash_of("dense", **DENSE, prepack=True)
    assert len(with_bias) == 16


def test_layout_data_type_and_transposition_are_no_part_of_a_shape():
    first = hash_of("conv2d", **CONV)
    assert first == hash_of("conv2d", **CONV, layout="NCHW")
    assert first == hash_of("conv2d", **CONV, layout="NHWC", prepack=True, epilogue="bias_relu")
    assert first == hash_of("conv2d", **CONV, layout="NHWC", dtype="float16")
    assert hash_of("batch_matmul", **PRODUCT) == hash_of("batch_matmul", **PRODUCT, transpose_right=True)


def test_settings_that_are_left_at_their_defaults_do_not_matter():
    assert hash_of("conv2d", **CONV) == hash_of("conv2d", **CONV, stride=[1, 1], padding=[0, 0])
    assert hash_of("conv2d", **CONV) != hash_of("conv2d", **CONV, stride=[2, 2])


def test_settings_and_operators_are():
    shapes = {
        hash_of("dense", **DENSE),
        hash_of("dense", **{**DENSE, "rows": 9}),
        hash_of("other", **DENSE),
        hash_of("conv2d", **CONV),
        hash_of("conv2d", **{**CONV, "kernel": [3, 1]}),
    }
    assert len(shapes) == 5


def test_a_task_without_settings_is_a_shape_of_its_own():
    imported = TaskRow("5" * 16, "main", "matmul", "{}", "imported", 1.0, "")
    assert shape_hash(imported) == "5" * 16


def test_a_task_described_by_its_arguments_is_compared_by_them():
    arguments = [{"dtype": "float32", "shape": [1, 4]}]
    others = [{"dtype": "float32", "shape": [1, 5]}]
    one = hash_of("elementwise", arguments=arguments)
    assert one == hash_of("elementwise", arguments=arguments, prepack=True)
    assert one != hash_of("elementwise", arguments=others)


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        (Conv2d(**CONV), {"layout": "NHWC", "dtype": "float16", "epilogue": "bias_relu"}),
        (BatchMatmul(**PRODUCT), {"transpose_right": True}),
        (Dense(**DENSE), {"prepack": True, "epilogue": "bias"}),
    ],
)
def test_the_hash_is_of_the_shape_that_the_sampling_of_tasks_compares(settings, alike):
    other = settings_from_dict(settings.operator, {**settings.to_dict(), **alike})
    assert other != settings and shape_of(other) == shape_of(settings)
    assert shape_hash(row(other.operator, other.to_dict())) == shape_hash(
        row(settings.operator, settings.to_dict())
    )


@pytest.fixture(scope="module")
def bundled():
    """Rows of the tasks that come with foretune, by their hashes, united as `foretune dataset merge` does."""
    found = {}
    for folder in (*CPUS, "gpu", "gpu-networks"):
        for task in RecordStore(ROOT / "data" / folder).tasks():
            found.setdefault(task.workload_hash, task)
    return found


def test_bundled_tasks_have_one_hash_a_shape(bundled):
    named = {}
    for task in bundled.values():
        values = json.loads(task.settings)
        if "arguments" not in values:
            shape = repr(shape_of(settings_from_dict(task.operator, values)))
            named.setdefault(shape, set()).add(shape_hash(task))
    assert len(named) > 2000
    assert all(len(hashes) == 1 for hashes in named.values())
    assert len(set.union(*named.values())) == len(named)


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_shipped_cards_know_the_shapes_that_they_saw(bundled, name):
    split = load_checkpoint(name).card.split
    assert {shape_hash(bundled[task]) for task in split.seen_tasks} == set(split.seen_shapes)
