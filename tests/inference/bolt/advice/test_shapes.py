"""Aligned widths and 1x1 convolutions, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from foretune.compiler.operators import Conv3d, Dense, DepthwiseConv2d
from foretune.compiler.operators.convolutions.conv2d import Conv2d, GroupConv2d
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.bolt.advice.alignment import aligned, alignment, misaligned, rounded
from foretune.inference.bolt.advice.deepening import deepened, parameters
from foretune.inference.bolt.advice.layers import Variant
from hypothesis import given
from hypothesis import strategies as st
from support.advice import CONV, layer
from support.fake_executor import HARDWARE

CPU, GPU = parse_target("llvm"), parse_target("nvidia/nvidia-a100")


@given(width=st.integers(1, 5000), unit=st.integers(1, 64))
def test_widths_are_rounded_to_the_next_multiples(width: int, unit: int) -> None:
    up, down = rounded(width, unit, "up"), rounded(width, unit, "down")
    assert up % unit == down % unit == 0
    assert down <= width <= up
    assert up - down == (0 if width % unit == 0 else unit)


def test_the_unit_is_a_vector_or_an_access() -> None:
    assert HARDWARE.vector_bits == 256
    assert alignment(CPU, HARDWARE, "float32") == 8
    assert alignment(GPU, HARDWARE, "float32") == 4
    assert alignment(GPU, HARDWARE, "float16") == 8  # section 3.2.3
    assert alignment(GPU, HARDWARE, "int8") == 16


def test_both_widths_change_together_and_nothing_else_does() -> None:
    up, down = aligned(layer(replace(CONV, in_channels=40)), 16, data_too=False)
    assert (up.direction, up.widths) == ("up", ("in_channels", "out_channels"))
    assert up.variant == Variant(replace(CONV, in_channels=48, out_channels=32), "relu")
    assert (down.direction, down.variant.settings) == (
        "down",
        replace(CONV, in_channels=32, out_channels=16),
    )


def test_the_channels_of_an_image_are_rounded_for_gpus_alone() -> None:
    stem = replace(CONV, in_channels=3, out_channels=64)
    assert misaligned(stem, 16, data_too=False) == ()
    (up,) = aligned(layer(stem), 8, data_too=True)  # downwards, there would be no channels
    assert up.variant.settings == replace(stem, in_channels=8)


def test_widths_of_other_operators() -> None:
    assert misaligned(Dense(rows=1, in_features=512, out_features=1000), 16, False) == ("out_features",)
    depthwise = DepthwiseConv2d(batch=1, in_channels=8, height=6, width=6, kernel=(3, 3))
    assert misaligned(depthwise, 16, False) == ("in_channels",)  # the image's is no depthwise one
    grouped = GroupConv2d(
        batch=1, in_channels=24, out_channels=24, groups=2, height=6, width=6, kernel=(3, 3)
    )
    assert misaligned(grouped, 16, False) == ()
    assert aligned(layer(replace(CONV, out_channels=32)), 16, False) == []


def test_a_1x1_convolution_has_the_output_of_its_layer() -> None:
    found = deepened(layer(activation="hardswish"))
    assert found is not None
    wanted = Conv2d(
        batch=1,
        in_channels=24,
        out_channels=24,
        height=5,
        width=7,
        kernel=(1, 1),
        layout="NHWC",
        epilogue="bias",
    )
    assert found == Variant(wanted, "hardswish")
    assert parameters(found) == 24 * 24 + 24
    depthwise = DepthwiseConv2d(batch=2, in_channels=8, height=6, width=6, kernel=(3, 3))
    behind = deepened(layer(depthwise, "none"))
    assert behind is not None
    assert (behind.settings.to_dict()["batch"], behind.settings.to_dict()["height"]) == (2, 4)


@pytest.mark.parametrize(
    "plain",
    [
        Dense(rows=1, in_features=8, out_features=8),
        Conv3d(batch=1, in_channels=2, out_channels=2, depth=4, height=4, width=4, kernel=(1, 1, 1)),
    ],
    ids=lambda op: op.operator,
)
def test_only_2d_convolutions_are_deepened(plain: object) -> None:
    assert deepened(layer(plain, "none")) is None
