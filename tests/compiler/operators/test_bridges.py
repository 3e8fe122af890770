"""Operators with the smaller extents of two others: the bridge operators of ETO."""

from __future__ import annotations

import pytest
from foretune.compiler.operators import (
    OPERATOR_SETTINGS,
    BatchMatmul,
    Conv1d,
    Conv2d,
    Dense,
    GroupConv2d,
    SettingsError,
    TransposedConv2d,
    to_task,
)
from foretune.compiler.structure.read_structure import read_structure


def loops(settings):
    """Extents of the major loop nest."""
    return read_structure(to_task(settings).mod).anchor.extents


def conv2d(**changes):
    values = {"batch": 1, "in_channels": 64, "height": 14, "width": 14, "out_channels": 64, "kernel": (1, 1)}
    return Conv2d(**{**values, **changes})


@pytest.mark.parametrize("cls", OPERATOR_SETTINGS.values(), ids=list(OPERATOR_SETTINGS))
def test_the_bridge_of_an_operator_with_itself_has_its_loops(cls):
    for settings in cls.examples():
        assert loops(settings.bridge_with(settings)) == loops(settings)


def test_the_example_of_the_paper():
    # ETO section 6.2.
    first = conv2d(kernel=(3, 3), padding=(1, 1))
    second = conv2d(height=28, width=28)
    assert (loops(first), loops(second)) == ((1, 64, 14, 14, 64, 3, 3), (1, 64, 28, 28, 64, 1, 1))
    assert loops(first.bridge_with(second)) == (1, 64, 14, 14, 64, 1, 1)
    assert first.bridge_with(second) == second.bridge_with(first) == conv2d()


def test_stride_and_dilation_are_one_and_padding_stays_where_both_have_it():
    # With padding 1 and neither stride nor dilation, outputs of 5 and 7 need inputs of 5 and 7.
    first = conv2d(kernel=(3, 3), stride=(2, 2), padding=(1, 1))
    second = conv2d(kernel=(3, 3), height=7, width=9, padding=(1, 1), dilation=(2, 2))
    assert (first.output_size, second.output_size) == ((7, 7), (5, 7))
    assert first.bridge_with(second) == conv2d(kernel=(3, 3), height=5, width=7, padding=(1, 1))


def test_products_of_matrices_take_the_smaller_extents():
    assert Dense(rows=8, in_features=32, out_features=4).bridge_with(
        Dense(rows=16, in_features=16, out_features=4)
    ) == Dense(rows=8, in_features=16, out_features=4)
    with pytest.raises(SettingsError, match="transpose_right=False and True: no operator has both"):
        BatchMatmul(batch=1, rows=2, inner=3, columns=4).bridge_with(
            BatchMatmul(batch=1, rows=2, inner=3, columns=4, transpose_right=True)
        )


def test_groups_are_those_that_both_can_have():
    values = {"batch": 1, "height": 4, "width": 4, "kernel": (1, 1)}
    first = GroupConv2d(**values, in_channels=24, out_channels=16, groups=8)  # 3 of a group
    second = GroupConv2d(**values, in_channels=24, out_channels=24, groups=12)  # 2 of a group
    assert first.bridge_with(second) == GroupConv2d(**values, in_channels=8, out_channels=16, groups=4)
    # Three and five groups have only one in common, which is another operator.
    with pytest.raises(SettingsError, match="groups"):
        GroupConv2d(**values, in_channels=9, out_channels=9, groups=3).bridge_with(
            GroupConv2d(**values, in_channels=10, out_channels=10, groups=5)
        )


def test_a_transposed_convolution_keeps_its_stride():
    values = {"batch": 1, "in_channels": 8, "out_channels": 4, "kernel": (4, 4), "padding": (1, 1)}
    first = TransposedConv2d(**values, height=8, width=4, stride=(2, 2))  # 16 x 8
    second = TransposedConv2d(**values, height=5, width=9, stride=(2, 2))  # 10 x 18
    bridge = first.bridge_with(second)
    assert bridge == TransposedConv2d(**values, height=5, width=4, stride=(2, 2))
    assert bridge.output_size == (10, 8)


def test_windows_over_one_axis():
    values = {"batch": 1, "in_channels": 4, "out_channels": 4}
    first = Conv1d(**values, length=9, kernel=3)  # 7
    second = Conv1d(**values, length=4, kernel=1)  # 4
    assert first.bridge_with(second) == Conv1d(**values, length=4, kernel=1)


def test_operators_of_two_types_have_no_bridge():
    with pytest.raises(SettingsError, match="conv2d and dense: only operators of one type are bridged"):
        conv2d().bridge_with(Dense(rows=1, in_features=1, out_features=1))
