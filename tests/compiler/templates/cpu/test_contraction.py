"""Reading of tasks as contractions."""

from __future__ import annotations

import pytest
from foretune.compiler.operators import OPERATOR_SETTINGS
from foretune.compiler.templates.cpu.contraction import Axis, read_contraction
from foretune.compiler.templates.cpu.overflow import AccumulatorOverflowError, check_accumulator
from foretune.compiler.tvm_compat import as_task_module

from tests.support.contractions import Convolution, Product


def test_a_product() -> None:
    task = read_contraction(Product(5, 32, 64, "bfloat16", epilogue="relu").module())
    assert task is not None
    assert task.types == ("bfloat16", "bfloat16", "float32")
    assert (task.rows, task.column, task.inner) == ((Axis(0, 5),), Axis(1, 32), Axis(2, 64))
    assert (task.batch, task.outer, task.depth) == ((), (), 64)
    assert (task.weight_inner, task.weight_column, task.constant_weight) == (0, 1, True)
    assert (task.prepared, len(task.inlined)) == ((), 1)


def test_a_batch_of_transposed_products_packs_its_weight_in_the_program() -> None:
    task = read_contraction(Product(5, 32, 64, batch=3, transposed=True).module())
    assert task is not None
    assert task.batch == (Axis(0, 3),)
    assert (task.weight_inner, task.weight_column, task.constant_weight) == (2, 1, False)
    assert task.epilogue is None


def test_a_strided_convolution() -> None:
    task = read_contraction(Convolution(9, 8, 16, kernel=3, stride=2, padding=1, epilogue="relu").module())
    assert task is not None
    assert [(axis.extent, axis.stride) for axis in task.rows] == [(1, 1), (5, 2), (5, 2)]
    assert [axis.extent for axis in task.outer] == [3, 3]
    assert (task.column.extent, task.inner.extent, task.depth) == (16, 8, 72)
    assert task.prepared == ("pad_temp",)


def test_pixels_of_few_channels_are_one_axis_in_tiles() -> None:
    task = read_contraction(Convolution(18, 4, 32, kernel=7, stride=2, padding=3).module())
    assert task is not None and task.window is not None
    assert (task.window.position, task.weight_window) == (5, 1)
    folded = task.in_tiles(step=2)
    # Two words of four channels; 14 of seven pixels.
    assert (folded.inner, folded.channels, [axis.extent for axis in folded.outer]) == (Axis(5, 28), 4, [7])
    assert (folded.rows, folded.column, folded.depth) == (task.rows, task.column, task.depth)


@pytest.mark.parametrize(("channels", "kernel"), [(64, 3), (32, 3), (8, 1)])
def test_other_convolutions_have_channels_alone_in_tiles(channels: int, kernel: int) -> None:
    task = read_contraction(Convolution(9, channels, 16, kernel=kernel, padding=kernel // 2).module())
    assert task is not None
    assert task.in_tiles(step=2) is task


def test_a_padding_of_nothing_is_inlined() -> None:
    task = read_contraction(Convolution(9, 8, 16, epilogue="relu").module())
    assert task is not None
    assert (task.prepared, "pad_temp" in task.inlined) == ((), True)


@pytest.mark.parametrize("name", ["depthwise_conv2d", "softmax", "pool2d", "conv2d"])
def test_other_tasks_are_none(name: str) -> None:
    """The example of conv2d has channels first, whose columns are not consecutive."""
    operator = OPERATOR_SETTINGS[name].examples()[0]
    assert read_contraction(as_task_module(operator.prim_func())) is None


def test_sums_that_may_overflow_are_an_error() -> None:
    deepest = (2**31 - 1) // (255 * 128)
    for depth in (deepest, deepest + 1):
        task = read_contraction(Product(1, 16, depth, "uint8").module())
        assert task is not None
        if depth == deepest:
            check_accumulator(task)
            continue
        with pytest.raises(AccumulatorOverflowError, match=f"{depth} products of uint8 and int8.*{deepest}"):
            check_accumulator(task)
