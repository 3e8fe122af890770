"""Likeness of tasks by their loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from foretune.compiler.operators import BatchMatmul, Conv2d, Dense, Softmax, to_task
from foretune.inference.reuse.similarity import OTHER_STEPS, loops_of
from support.reuse import conv


def test_halved_loops_are_one_apart_each():
    one, other = loops_of(conv()), loops_of(conv(in_channels=256, out_channels=64))
    assert one.kind == other.kind
    assert one.distance(one) == 0
    assert one.distance(other) == other.distance(one) == pytest.approx(2.0)


def test_a_stride_adds_its_distance():
    plain = loops_of(conv(height=14, width=14))
    strided = loops_of(conv(height=27, width=27, stride=(2, 2)))
    assert strided.extents == plain.extents
    assert plain.distance(strided) == OTHER_STEPS


def test_another_operator_or_layout_is_another_kind():
    kinds = {
        loops_of(to_task(settings)).kind
        for settings in (
            Dense(rows=8, in_features=8, out_features=8),
            Softmax(rows=8, columns=8),
            Conv2d(batch=1, in_channels=8, height=8, width=8, out_channels=8, kernel=(3, 3)),
            Conv2d(batch=1, in_channels=8, height=8, width=8, out_channels=8, kernel=(3, 3), layout="NHWC"),
        )
    }
    assert len(kinds) == 4


def test_tasks_that_nothing_tells_about_have_no_loops():
    assert all(loops_of(replace(conv(), operator=name)) is None for name in ("attention", "elementwise"))
    assert loops_of(replace(conv(), mod=tvm.IRModule({}))) is None


def test_a_layer_at_another_batch_size_or_length_is_resized():
    at = {batch: loops_of(conv(batch=batch)) for batch in (1, 4)}
    assert at[1].is_resized(at[4])
    assert at[4].is_resized(at[1])
    assert at[1].is_resized(at[1])
    short, long = (loops_of(to_task(BatchMatmul(batch=12, rows=n, inner=64, columns=n))) for n in (64, 128))
    assert short.is_resized(long)


def test_a_layer_of_another_width_is_not_resized():
    layer, batch, wide = (
        loops_of(conv(prepack=True, **changes)) for changes in ({}, {"batch": 4}, {"out_channels": 256})
    )
    assert layer.is_resized(batch)
    assert not layer.is_resized(wide)


def test_another_layer_is_not_resized():
    layer = loops_of(conv())
    assert not layer.is_resized(loops_of(conv(in_channels=256, out_channels=512)))  # by 1/2 and by 4
    assert not layer.is_resized(loops_of(conv(height=55, width=55, stride=(2, 2))))
    assert not layer.is_resized(loops_of(to_task(Softmax(rows=8, columns=8))))
