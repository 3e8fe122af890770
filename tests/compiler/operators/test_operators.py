"""Parameterised operators: sizes, flops, design spaces, settings to JSON and back, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from foretune.compiler.operators import (
    OPERATOR_SETTINGS,
    BatchMatmul,
    BatchNorm,
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    FrobeniusNorm,
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    OperatorSettings,
    Pool2d,
    Reduction,
    SettingsError,
    Softmax,
    TransposedConv2d,
    WinogradConv2d,
    settings_from_dict,
    to_task,
)
from foretune.compiler.tvm_compat import argument_buffers, design_spaces, make_tune_context, parse_target
from foretune.dataset.records.store import RecordStore
from hypothesis import given, settings
from hypothesis import strategies as st
from support.operators import EXAMPLES
from support.paths import ROOT

SMALL_CONV = Conv2d(batch=2, in_channels=3, height=9, width=7, out_channels=4, kernel=3)
SMALL_DEPTHWISE = DepthwiseConv2d(batch=1, in_channels=5, height=8, width=8, kernel=3)


@pytest.mark.parametrize("target", ["llvm", "nvidia/nvidia-a100"])
@pytest.mark.parametrize("operator", OPERATOR_SETTINGS)
def test_design_spaces_have_decisions(operator: str, target: str) -> None:
    """Every layout and data type has decisions, in few enough spaces that a search can try all of them."""
    op = EXAMPLES[operator]
    layouts = [replace(op, layout=layout) for layout in getattr(op, "layouts", ())]
    for variant in [*layouts, *(replace(op, dtype=dtype) for dtype in op.dtypes)]:
        task = to_task(variant)
        context = make_tune_context(task.mod, parse_target(target), seed=0)
        spaces = design_spaces(context, task.name)
        assert all(space.trace.decisions for space in spaces)
        assert len(spaces) <= 9


def test_flops_by_hand() -> None:
    # 4x4 output, 2 channels out, 3 in, 3x3 kernel: 4 * 4 * 2 * 3 * 9 = 864 multiply-adds.
    conv = Conv2d(batch=1, in_channels=3, height=4, width=4, out_channels=2, kernel=3, padding=1)
    assert conv.flops == 1728
    # Dilation 2 makes a 3-kernel span 5: (9 - 5) // 2 + 1 = 3 rows, and 3 columns of 7 - 5 + 1.
    strided = DepthwiseConv2d(batch=2, in_channels=4, height=9, width=7, kernel=3, stride=(2, 1), dilation=2)
    assert strided.output_size == (3, 3)
    assert strided.flops == 2 * (2 * 4 * 3 * 3) * 9
    assert Dense(rows=2, in_features=3, out_features=5).flops == 60
    assert BatchMatmul(batch=7, rows=2, inner=3, columns=5).flops == 420
    # Each of the 6 filters sees the 2 channels of its group at 5 positions through 3 taps.
    sequence = Conv1d(batch=1, in_channels=4, length=11, out_channels=6, kernel=3, stride=2, groups=2)
    assert sequence.flops == 2 * (6 * 5) * 2 * 3
    grouped = GroupConv2d(batch=1, in_channels=6, height=3, width=4, out_channels=9, kernel=3, groups=3)
    assert grouped.flops == 2 * (9 * 1 * 2) * 2 * 9
    video = Conv3d(batch=2, in_channels=3, depth=4, height=5, width=6, out_channels=7, kernel=(1, 2, 3))
    assert video.flops == 2 * (2 * 7 * 4 * 4 * 4) * 3 * 6
    # 2 x 3 x 3 positions of 8 filters, each through 8 taps of the one channel of its group.
    separated = GroupConv3d(
        batch=1, in_channels=4, depth=3, height=4, width=4, out_channels=8, kernel=2, groups=4
    )
    assert separated.flops == 2 * (8 * 2 * 3 * 3) * 1 * 8
    # (3 - 1) * 2 - 2 + 3 + 1 = 6 rows and columns.
    upsampled = TransposedConv2d(
        batch=1, in_channels=2, height=3, width=3, out_channels=5, kernel=3, stride=2, padding=1,
        output_padding=1,
    )  # fmt: skip
    assert upsampled.output_size == (6, 6)
    assert upsampled.flops == 2 * (5 * 6 * 6) * 2 * 9
    # 7 x 10 outputs take 2 x 3 tiles of 36 products of each pair of channels.
    winograd = WinogradConv2d(batch=1, in_channels=3, height=7, width=10, out_channels=4, padding=1)
    assert winograd.tiles == (2, 3)
    assert winograd.flops == 2 * 36 * 6 * 3 * 4
    assert Pool2d(batch=1, channels=2, height=6, width=6, kernel=3, stride=3).flops == 2 * 4 * 9
    assert Softmax(rows=2, columns=3).flops == 24
    assert BatchNorm(batch=2, channels=3, height=4, width=5).flops == 9 * 120
    assert GroupNorm(batch=2, channels=6, groups=3, height=4, width=5).flops == 14 * 240
    assert FrobeniusNorm(batch=2, rows=3, columns=4).flops == 48
    assert Reduction(rows=3, columns=4).flops == 12


COUNTED_AS_BY_TVM = [name for name, cls in OPERATOR_SETTINGS.items() if cls.counts_as_tvm]


def test_which_operators_count_otherwise_than_tvm() -> None:
    others = {*OPERATOR_SETTINGS} - {*COUNTED_AS_BY_TVM}
    assert others >= {"conv2d_winograd", "layer_norm", "batch_norm", "softmax"}
    assert {"conv2d", "dense", "group_norm", "pool2d", "reduction"} <= {*COUNTED_AS_BY_TVM}


@pytest.mark.parametrize("operator", COUNTED_AS_BY_TVM)
def test_flops_of_a_plain_operator_equal_tvms_count(operator: str) -> None:
    op = EXAMPLES[operator]
    assert to_task(op).flops == op.flops


def test_operators_keep_the_hashes_of_stored_records() -> None:
    """Else records of an operator would be lost on all who draw it again."""
    folder = ROOT / "data" / "cpu"
    rows = [row for row in RecordStore(folder).tasks() if row.source == "operator"][:40]
    # These records are of the time before GELU and softmax were arithmetic, as they are in networks now.
    rows = [row for row in rows if row.operator != "softmax" and "gelu" not in row.settings]
    assert len(rows) > 30
    assert {row.operator for row in rows} >= {"conv2d", "depthwise_conv2d", "dense", "batch_matmul"}
    for row in rows:
        task = to_task(settings_from_dict(row.operator, json.loads(row.settings)))
        assert task.workload_hash == row.workload_hash, task.name


def test_labels_tell_variants_apart() -> None:
    assert SMALL_CONV.label == "2x3x9x7_k3_s1_p0_d1_o4"
    assert replace(SMALL_CONV, layout="NHWC", stride=(2, 1)).label == "2x3x9x7_k3_s2x1_p0_d1_nhwc_o4"
    variants = [
        SMALL_CONV, replace(SMALL_CONV, layout="NHWC"), EXAMPLES["conv1d"],
        replace(EXAMPLES["conv1d"], groups=2), EXAMPLES["batch_matmul"],
        replace(EXAMPLES["batch_matmul"], transpose_right=True), EXAMPLES["pool2d"],
        replace(EXAMPLES["pool2d"], mode="avg"), EXAMPLES["reduction"],
        replace(EXAMPLES["reduction"], axis=0), EXAMPLES["group_norm"],
        replace(EXAMPLES["group_norm"], groups=2), EXAMPLES["group_conv3d"],
        replace(EXAMPLES["group_conv3d"], in_channels=2),
    ]  # fmt: skip
    assert len({op.label for op in variants}) == len(variants)


def test_operators_are_imported_without_torch() -> None:
    """Measuring processes have no torch, which would take most of their start."""
    code = "import sys; sys.modules['torch'] = None; from foretune.compiler.operators import Conv2d"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_task_describes_its_settings() -> None:
    task = to_task(SMALL_CONV)
    assert (task.operator, task.source, task.weight) == ("conv2d", "operator", 1)
    assert task.settings["kernel"] == [3, 3]
    assert argument_buffers(task.mod) == [
        ((2, 3, 9, 7), "float32"), ((4, 3, 3, 3), "float32"), ((2, 4, 7, 5), "float32")
    ]  # fmt: skip


def pairs_of(smallest: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(smallest, most), st.integers(smallest, most))


pairs = pairs_of(1, 3)


@given(
    channels=st.integers(1, 64), height=st.integers(7, 40), kernel=pairs, stride=pairs, padding=pairs,
    dilation=pairs, epilogue=st.sampled_from(Conv2d.epilogues), dtype=st.sampled_from(["float32", "float16"]),
)  # fmt: skip
@settings(deadline=None, max_examples=50)
def test_json_round_trip(channels: int, height: int, **options: object) -> None:
    op = Conv2d(batch=1, in_channels=channels, height=height, width=9, out_channels=8, **options)
    assert settings_from_dict("conv2d", json.loads(json.dumps(op.to_dict()))) == op


@given(kernel=pairs, stride=pairs, padding=pairs, dilation=pairs)
@settings(deadline=None, max_examples=30)
def test_output_size_is_the_size_tvm_infers(**options: tuple[int, int]) -> None:
    op = Conv2d(batch=1, in_channels=2, height=11, width=8, out_channels=3, **options)
    assert tuple(int(extent) for extent in op.tensors()[-1].shape) == (1, 3, *op.output_size)


@pytest.mark.parametrize("op", EXAMPLES.values(), ids=lambda op: op.operator)
def test_every_operator_is_read_back_from_json(op: OperatorSettings) -> None:
    assert settings_from_dict(op.operator, json.loads(json.dumps(op.to_dict()))) == op


@given(kernel=pairs_of(3, 5), stride=pairs_of(2, 4), padding=pairs_of(0, 2), output_padding=pairs_of(0, 1))
@settings(deadline=None, max_examples=30)
def test_output_size_of_a_transposed_convolution_is_the_size_tvm_infers(**options: tuple[int, int]) -> None:
    op = TransposedConv2d(batch=1, in_channels=2, height=6, width=5, out_channels=3, **options)
    assert tuple(int(extent) for extent in op.tensors()[-1].shape) == (1, 3, *op.output_size)


def test_one_number_stands_for_both_directions() -> None:
    assert SMALL_CONV.kernel == (3, 3)
    listed = settings_from_dict("conv2d", {**SMALL_CONV.to_dict(), "kernel": [3, 3]})
    assert listed == SMALL_CONV


@pytest.mark.parametrize(
    ("operator", "change", "message"),
    [
        ("conv2d", {"kernel": 12}, r"kernel=\(12, 12\).*spans 12 along height.*has 9.*smaller kernel"),
        ("conv2d", {"dilation": (1, 4)}, r"spans 9 along width.*has 7"),
        ("conv2d", {"stride": 0}, "stride=0: give one or two whole numbers of at least 1"),
        ("conv2d", {"padding": (1, -1)}, r"padding=\(1, -1\): .*at least 0"),
        ("conv2d", {"out_channels": 2.5}, "out_channels=2.5: give a whole number"),
        ("conv2d", {"epilogue": "swish"}, "epilogue='swish': use one of none, bias"),
        ("conv2d", {"dtype": "int3"}, "dtype='int3': use one of float32"),
        ("conv2d", {"groups": 2}, "no setting groups; it has"),
        ("conv2d", {"layout": "CHWN"}, "layout='CHWN': use one of NCHW, NHWC"),
        ("conv2d", {"dtype": "int8", "epilogue": "bias_relu6"}, "epilogue='bias_relu6' of dtype='int8'"),
        ("winograd", {}, "operator='winograd': use one of conv2d"),
    ],
)
def test_bad_settings_are_named(operator: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings_from_dict(operator, {**SMALL_CONV.to_dict(), **change})


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(SettingsError, match=r"dense: .*'out_features'.*it needs"):
        settings_from_dict("dense", {"rows": 1, "in_features": 2})


@pytest.mark.parametrize(
    ("operator", "change", "message"),
    [
        ("conv1d", {"groups": 4}, "groups=4 does not divide the 6 channels in and the 4 out"),
        ("conv1d", {"kernel": (3, 3)}, r"kernel=\(3, 3\): give a whole number"),
        ("conv1d", {"kernel": 9}, r"kernel=\(9,\).* spans 17 along length, the padded input has 13"),
        ("conv3d", {"kernel": (3, 3)}, "give one or three whole numbers"),
        ("group_conv2d", {"groups": 1}, "groups=1: give a whole number of at least 2"),
        ("group_conv2d", {"groups": 4, "out_channels": 4}, "depthwise: use depthwise_conv2d"),
        ("group_conv3d", {"groups": 1}, "groups=1: give a whole number of at least 2"),
        ("group_conv3d", {"groups": 4}, "groups=4 does not divide the 4 channels in and the 6 out"),
        ("group_conv3d", {"depth": 1, "padding": 0}, "spans 2 along depth, the padded input has 1"),
        ("group_norm", {"groups": 4}, "groups=4 does not divide the 6 channels: use a divisor"),
        ("group_norm", {"groups": 0}, "groups=0: give a whole number of at least 1"),
        ("group_norm", {"dtype": "int8"}, "dtype='int8': use one of float32, float16"),
        ("conv2d_transpose", {"padding": 3}, r"padding=\(3, 3\) of kernel=\(3, 4\): it must be smaller"),
        ("conv2d_transpose", {"output_padding": 2}, r"output_padding=\(2, 2\) of stride=\(2, 3\)"),
        (
            "conv2d_transpose",
            {"height": 1, "padding": 2, "output_padding": 0},
            r"leaves an output of \(-1, 12\): use less padding",
        ),
        ("capsule_conv2d", {"capsule_size": 0}, "capsule_size=0: give a whole number of at least 1"),
        ("conv2d_winograd", {"dtype": "float16"}, "dtype='float16': use one of float32"),
        ("conv2d_winograd", {"height": 2, "padding": 0}, "spans 3 along height, the padded input has 2"),
        ("pool2d", {"padding": 2}, r"padding=\(2, 2\) of kernel=\(3, 2\): pad by at most half"),
        ("pool2d", {"mode": "min"}, "mode='min': use one of max, avg"),
        ("reduction", {"axis": 2}, "axis=2: use 0 for the rows"),
        ("batch_matmul", {"transpose_right": "yes"}, "transpose_right='yes': use one of False, True"),
        ("softmax", {"columns": 0}, "columns=0: give a whole number"),
        ("softmax", {"dtype": "int8"}, "dtype='int8': use one of float32, float16"),
    ],
)
def test_bad_settings_of_other_operators_are_named(
    operator: str, change: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        settings_from_dict(operator, {**EXAMPLES[operator].to_dict(), **change})
