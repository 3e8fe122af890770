"""Reads from a TIR function which operator it computes and with which settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm.s_tir.analysis import find_anchor_sblock
from tvm.s_tir.stmt import SBlock
from tvm.sym import detect_linear_equation

from .operators import (
    CapsuleConv2d,
    Conv1d,
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    LayerNorm,
    Pool2d,
    Softmax,
    TransposedConv1d,
    TransposedConv2d,
    WinogradConv2d,
)
from .operators.window import SlidingWindow, kernel_layout
from .tvm_compat import argument_buffers, layout_free

Description: TypeAlias = tuple[str, dict[str, Any]]

CONVOLUTION = re.compile(r"(group_)?conv([123])d_(n[cdhw]+)$")
TRANSPOSED_LAST = re.compile(r"conv[12]d_transpose_(nw|nhw)c$")
POOL = re.compile(r"(adaptive_)?pool_")
POOL_MODES = {"pool_max": "max", "pool_sum": "avg"}
CONVOLUTIONS: Mapping[int, type[SlidingWindow]] = {1: Conv1d, 2: Conv2d, 3: Conv3d}
TRANSPOSED_CONVOLUTIONS: Mapping[int, type[SlidingWindow]] = {1: TransposedConv1d, 2: TransposedConv2d}
"""By number of spatial axes."""

FIXED_LAYOUT = (CapsuleConv2d.operator, WinogradConv2d.operator)


def describe(mod: tvm.IRModule) -> Description:
    """Operator (one of `task.OPERATORS`) and JSON-able settings of the unscheduled function `main`.

    The anchor block, the reduction with the most operations, decides; block names are those of TVM's operator
    library. Settings of convolutions, products, 2-D pooling, softmax, layer and group norms carry the names
    that `dataset.operators` has; others list their arguments. A setting that makes no difference, such as the
    stride of a single output, reads as 1.
    """
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(mod["main"].body, (SBlock, blocks.append))
    by_name = {block.name_hint: block for block in blocks}
    anchor = find_anchor_sblock(mod)
    description = None if anchor is None else _describe_anchor(anchor, by_name)
    if description is not None:
        operator, settings = description
        return operator, settings | ({"prepack": True} if layout_free(mod["main"]) else {})
    arguments = {"arguments": [{"shape": list(s), "dtype": d} for s, d in argument_buffers(mod)]}
    return _category(anchor, by_name), arguments


def _category(anchor: SBlock | None, by_name: Mapping[str, SBlock]) -> str:
    """Operator type of a task whose settings are not read."""
    if anchor is None:
        return "elementwise"
    if fixed := [name for name in FIXED_LAYOUT if name in by_name]:
        return fixed[0]
    if any("softmax" in name for name in by_name):
        return "softmax"
    if any(name.endswith("_norm") for name in by_name):
        return "norm"
    if POOL.match(anchor.name_hint):
        return "pool"
    return "other"


def _describe_anchor(anchor: SBlock, by_name: Mapping[str, SBlock]) -> Description | None:
    """The operator with its settings, None where they cannot be told."""
    name = anchor.name_hint
    if "T_layer_norm" in by_name:
        return _layer_norm(by_name["T_layer_norm"])
    if "T_group_norm" in by_name:
        return _group_norm(by_name["T_group_norm"])
    if "T_softmax_maxelem" in by_name:
        return _softmax(by_name["T_softmax_maxelem"])
    if "matmul" in name:
        return _matmul(anchor)
    if name in POOL_MODES:
        return _pool2d(anchor, by_name)
    if match := CONVOLUTION.match(name):
        return _convolution(anchor, by_name, match.group(3).upper())
    if "data_dilate" in by_name:
        return _transposed(anchor, by_name)
    return None


def _layer_norm(block: SBlock) -> Description:
    data, bias = block.writes[0].source, block.reads[-1].source
    columns = prod(_shape(bias))
    return LayerNorm.operator, {
        "rows": prod(_shape(data)) // columns,
        "columns": columns,
        "dtype": str(data.dtype),
    }


def _group_norm(block: SBlock) -> Description | None:
    data = block.writes[0].source
    if len(data.shape) != 5:  # [batch, groups, channels / groups, height, width] of images
        return None
    batch, groups, channels, height, width = _shape(data)
    return GroupNorm.operator, {
        "batch": batch,
        "channels": groups * channels,
        "groups": groups,
        "height": height,
        "width": width,
        "dtype": str(data.dtype),
    }


def _softmax(maximum: SBlock) -> Description | None:
    data = maximum.reads[0]
    if not data.region[-1].min.same_as(maximum.iter_vars[-1].var):  # over another axis than the last
        return None
    *outer, columns = _shape(data.source)
    return Softmax.operator, {"rows": prod(outer), "columns": columns, "dtype": str(data.source.dtype)}


def _matmul(anchor: SBlock) -> Description:
    left, right = (read.source for read in anchor.reads)
    *outer, rows, columns = _shape(anchor.writes[0].source)
    inner, dtype = _shape(left)[-1], str(left.dtype)
    if len(right.shape) == 2:  # one matrix for every row of the batch: a linear layer
        rows = prod(outer) * rows
        return "dense", {"rows": rows, "in_features": inner, "out_features": columns, "dtype": dtype}
    return "batch_matmul", {
        "batch": prod(outer),
        "rows": rows,
        "inner": inner,
        "columns": columns,
        "transpose_right": anchor.name_hint.startswith("NT_"),
        "dtype": dtype,
    }


def _pool2d(anchor: SBlock, by_name: Mapping[str, SBlock]) -> Description | None:
    """Settings of pooling over height and width; the reduction's loops are the window's rows and columns."""
    data = anchor.reads[0]
    if len(data.source.shape) != 4:
        return None
    channels_first = data.region[1].min.same_as(anchor.iter_vars[1].var)
    layout = "NCHW" if channels_first else "NHWC"
    taps = anchor.iter_vars[4:]
    settings, source = _window(Pool2d, layout, data, anchor, taps, by_name)
    if settings.pop("dilation") != [1, 1]:
        return None
    kernel = [int(tap.dom.extent) for tap in taps]
    channels = _shape(source)[layout.index("C")]
    mode = POOL_MODES[anchor.name_hint]
    return Pool2d.operator, settings | {"channels": channels, "kernel": kernel, "mode": mode}


def _convolution(anchor: SBlock, by_name: Mapping[str, SBlock], layout: str) -> Description:
    """Settings of a convolution; it sums over the channel and the window, in the layout's order."""
    data, weight = anchor.reads
    axes = len(layout) - 2
    reduction = anchor.iter_vars[len(layout) :]
    taps = reduction[1:] if layout.startswith("NC") else reduction[:-1]
    by_letter = dict(zip(kernel_layout(layout), _shape(weight.source), strict=True))
    out_channels = by_letter.pop("O")
    channels_per_group = by_letter.pop("I")
    cls = CONVOLUTIONS[axes]
    settings, source = _window(cls, layout, data, anchor, taps, by_name)
    in_channels = _shape(source)[layout.index("C")]
    settings |= {"in_channels": in_channels, "kernel": _per_axis(list(by_letter.values()))}
    groups = in_channels // channels_per_group
    if axes == 2 and in_channels == out_channels == groups > 1:
        return DepthwiseConv2d.operator, settings
    settings["out_channels"] = out_channels
    if axes == 1:
        return cls.operator, settings | {"groups": groups}
    if groups == 1:
        return cls.operator, settings
    grouped = GroupConv2d if axes == 2 else GroupConv3d
    return grouped.operator, settings | {"groups": groups}


def _window(
    cls: type[SlidingWindow],
    layout: str,
    data: Any,
    anchor: SBlock,
    taps: Sequence[Any],
    by_name: Mapping[str, SBlock],
) -> tuple[dict[str, Any], Any]:
    """Batch, size of the input, stride, padding, dilation, layout and dtype; and the input before padding."""
    positions = [index for index, letter in enumerate(layout) if letter not in "NC"]
    padding, source = [0] * len(positions), data.source
    for name, block in by_name.items():  # the padded copy of the input, where there is one
        if name.startswith("pad_temp") and block.writes[0].source.same_as(data.source):
            read = block.reads[0]
            padding = [-_linear(read.region[i].min, block.iter_vars[i])[1] for i in positions]
            source = read.source
    stride = [_linear(data.region[i].min, anchor.iter_vars[i])[0] for i in positions]
    dilation = [_linear(data.region[i].min, tap)[0] for i, tap in zip(positions, taps, strict=True)]
    shape = _shape(source)
    return {
        "batch": shape[0],
        **{name: shape[index] for name, index in zip(cls.axes, positions, strict=True)},
        "stride": _per_axis(stride),
        "padding": _per_axis(padding),
        "dilation": _per_axis(dilation),
        "layout": layout,
        "dtype": str(source.dtype),
    }, source


def _transposed(anchor: SBlock, by_name: Mapping[str, SBlock]) -> Description | None:
    """Settings of a transposed convolution, from the shapes of its data, dilated and then padded."""
    if "data_pad" not in by_name or "kernel_dilate" in by_name:
        return None
    dilate, pad = by_name["data_dilate"], by_name["data_pad"]
    data, dilated, padded = (b.source for b in (dilate.reads[0], dilate.writes[0], pad.writes[0]))
    axes = len(data.shape) - 2
    if axes not in TRANSPOSED_CONVOLUTIONS:
        return None
    cls = TRANSPOSED_CONVOLUTIONS[axes]
    layout = cls.layouts[bool(TRANSPOSED_LAST.match(anchor.name_hint))]
    channels = layout.index("C")
    if layout.startswith("NC"):
        turned = by_name.get("kernel_transform") or by_name["kernel"]
        _, weight_out, *kernel = _shape(turned.reads[0].source)
    else:
        *kernel, _, weight_out = _shape(anchor.reads[1].source)
    out_channels = _shape(anchor.writes[0].source)[channels]
    if weight_out != out_channels:  # the weight has the output channels of one group
        return None
    positions = [index for index, letter in enumerate(layout) if letter not in "NC"]
    sizes, dilated_sizes, padded_sizes = (
        [_shape(buffer)[i] for i in positions] for buffer in (data, dilated, padded)
    )
    before = [-_linear(pad.reads[0].region[i].min, pad.iter_vars[i])[1] for i in positions]
    settings: dict[str, list[int]] = {"kernel": kernel, "stride": [], "padding": [], "output_padding": []}
    for axis, extent in enumerate(kernel):
        gaps = sizes[axis] - 1
        settings["stride"].append((dilated_sizes[axis] - 1) // gaps if gaps else 1)
        settings["padding"].append(extent - 1 - before[axis])
        settings["output_padding"].append(padded_sizes[axis] - dilated_sizes[axis] - 2 * before[axis])
    return cls.operator, {
        "batch": _shape(data)[0],
        "in_channels": _shape(data)[channels],
        **dict(zip(cls.axes, sizes, strict=True)),
        "out_channels": out_channels,
        **{name: _per_axis(values) for name, values in settings.items()},
        "layout": layout,
        "dtype": str(data.dtype),
    }


def _per_axis(values: list[int]) -> Any:
    """As settings have it: a number where there is one axis, else a list."""
    return values[0] if len(values) == 1 else values


def _shape(buffer: Any) -> list[int]:
    return [int(extent) for extent in buffer.shape]


def _linear(index: Any, iteration: Any) -> tuple[int, int]:
    """Coefficient of the loop variable in `index`, 1 if simplified away, and the constant term."""
    variables = {iteration.var}
    tvm_ffi.structural_walk(index, (tvm.tirx.Var, variables.add))
    ordered = sorted(variables, key=lambda var: not var.same_as(iteration.var))
    terms = detect_linear_equation(index, ordered)
    return (int(terms[0]) or 1, int(terms[-1])) if terms else (1, 0)
