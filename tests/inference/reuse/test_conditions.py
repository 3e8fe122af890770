"""Reuse conditions of ETO's Definition 2, on descriptions by hand and on tasks."""

from __future__ import annotations

import pytest
from foretune.compiler.operators import BatchMatmul, Dense, to_task
from foretune.compiler.task import Task
from foretune.inference.reuse.conditions import (
    Operator,
    SketchSignature,
    UnreadableOperatorError,
    can_reuse,
    dominance,
    operator_of,
)
from hypothesis import given
from hypothesis import strategies as st
from support.reuse import CHILD, CPU, PARENT, SM_80, context_of, conv, plain_space
from tvm.script import ir as I
from tvm.script import tirx as T

REDUCTION = (False, False, False, False, True, True, True)


def conv_loops(*extents: int, of: str = "conv2d") -> Operator:
    return Operator(of, extents, REDUCTION)


ALPHA = conv_loops(1, 64, 14, 14, 64, 3, 3)
BETA = conv_loops(1, 64, 28, 28, 64, 1, 1)
BRIDGE = conv_loops(1, 64, 14, 14, 64, 1, 1)


def test_the_example_of_section_6_2() -> None:
    # 14 < 28 in the third loop, but 3 > 1 in the last: neither dominates.
    assert dominance(ALPHA, BETA) is None
    assert not can_reuse(ALPHA, BETA) and not can_reuse(BETA, ALPHA)
    for operator in (ALPHA, BETA):
        assert can_reuse(operator, BRIDGE) and can_reuse(BRIDGE, operator)


def test_the_larger_side_and_its_loops_are_named() -> None:
    assert dominance(ALPHA, BRIDGE) == dominance(conv_loops(1, 64, 14, 14, 64, 3, 3), BRIDGE)
    assert (found := dominance(BRIDGE, ALPHA)) and (found.larger, found.axes) == ("child", (5, 6))
    assert (found := dominance(BETA, BRIDGE)) and (found.larger, found.axes) == ("parent", (2, 3))
    assert (found := dominance(BETA, BETA)) and (found.larger, found.axes) == ("", ())


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=7, max_size=7))
def test_dominance_is_what_the_definition_says_and_symmetric(pairs: list[tuple[int, int]]) -> None:
    ours, theirs = (conv_loops(*extents) for extents in zip(*pairs, strict=True))
    says = all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)
    assert can_reuse(ours, theirs) == can_reuse(theirs, ours) == says
    smaller = ours.with_extents(tuple(min(pair) for pair in pairs))
    assert can_reuse(ours, smaller) and can_reuse(theirs, smaller)


def test_iteration_spaces_by_hand() -> None:
    assert ALPHA.reduction_iterations == 64 * 3 * 3
    assert ALPHA.space_iterations == 64 * 14 * 14
    assert ALPHA.iterations == 64 * 14 * 14 * 64 * 3 * 3


def test_types_and_sketches_must_be_equal() -> None:
    assert not can_reuse(conv_loops(1, 64, 14, 14, 64, 1, 1, of="depthwise_conv2d"), BRIDGE)
    tiled, plain = (
        frozenset({SketchSignature(structure, REDUCTION, (), (), 0, False, (), 1)})
        for structure in ("SSRSRS", "")
    )
    ours = Operator("conv2d", BRIDGE.extents, REDUCTION, tiled)
    assert can_reuse(ours, Operator("conv2d", ALPHA.extents, REDUCTION, tiled))
    assert not can_reuse(ours, Operator("conv2d", ALPHA.extents, REDUCTION, plain))
    # An operator whose sketches were not read goes by its type.
    assert can_reuse(ours, ALPHA)


def test_convolutions_of_any_kernel_stride_and_size_are_of_one_type() -> None:
    types = {
        operator_of(task).type
        for task in (
            PARENT,
            conv(kernel=(3, 3), padding=(1, 1)),
            conv(kernel=(3, 3), stride=(2, 2)),
            conv(kernel=(1, 1), stride=(2, 2), padding=(1, 1)),
            conv(batch=4, height=9, width=5, kernel=(3, 3), dilation=(2, 2)),
            conv(epilogue="bias_relu"),
        )
    }
    assert len(types) == 1


def test_layout_and_data_type_are_part_of_the_type() -> None:
    assert len({operator_of(conv(layout=layout)).type for layout in ("NCHW", "NHWC")}) == 2
    assert len({operator_of(conv(dtype=dtype)).type for dtype in ("float32", "float16")}) == 2


def test_loops_of_a_task_are_those_of_its_largest_nest() -> None:
    described = operator_of(CHILD)
    assert described.extents == (1, 128, 28, 28, 256, 1, 1)
    assert described.reduction == REDUCTION
    assert described.sketches is None
    assert can_reuse(operator_of(PARENT), described)


def test_matmuls_and_batched_ones_do_not_reuse_each_other() -> None:
    dense = operator_of(to_task(Dense(rows=8, in_features=16, out_features=32)))
    larger = operator_of(to_task(Dense(rows=8, in_features=64, out_features=32)))
    other = operator_of(to_task(Dense(rows=16, in_features=8, out_features=32)))
    batched = operator_of(to_task(BatchMatmul(batch=2, rows=8, inner=16, columns=32)))
    assert can_reuse(dense, larger)
    assert not can_reuse(larger, other)  # more rows, fewer features
    assert not can_reuse(dense, batched)


@pytest.mark.parametrize("target", [SM_80, CPU])
def test_sketches_of_a_task_have_the_same_signatures_as_those_of_its_siblings(target) -> None:
    ours, theirs = (operator_of(task, context_of(task, target)) for task in (PARENT, CHILD))
    assert ours.sketches == theirs.sketches
    assert len(ours.sketches) == 3
    assert SketchSignature.of(plain_space(CHILD).sketch) == SketchSignature.of(plain_space(PARENT).sketch)


def test_a_bridge_touches_no_more_of_a_buffer_than_its_loops_do() -> None:
    strided = operator_of(conv(kernel=(3, 3), stride=(2, 2), in_channels=8, height=9, width=9))
    assert strided.extents == (1, 128, 4, 4, 8, 3, 3)
    bridge = strided.with_extents((1, 64, 2, 4, 8, 1, 3))
    data, weight = bridge.block.reads[:2]
    # (2 - 1) * 2 + 1 rows and (4 - 1) * 2 + 3 columns
    assert data.shape == (1, 8, 3, 9)
    assert weight.shape == (64, 8, 1, 3)
    assert bridge.type == strided.type


@I.ir_module
class Copied:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1,), "float32"), b: T.Buffer((1,), "float32")):
        b[0] = a[0]


def test_a_task_without_loops_is_refused() -> None:
    task = Task("scalar", Copied, 1, "operator", "elementwise", {}, 1.0)
    with pytest.raises(UnreadableOperatorError, match=r"task=scalar: .*without a parent"):
        operator_of(task)
