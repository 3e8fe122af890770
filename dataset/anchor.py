"""Reads from a TIR function which operator it computes and with which settings."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.analysis import find_anchor_sblock
from tvm.s_tir.stmt import SBlock
from tvm.sym import detect_linear_equation

from .tvm_compat import argument_buffers

CONV2D = re.compile(r"(group_)?conv2d_(nchw|nhwc)$")
POOL = re.compile(r"(adaptive_)?pool_")


def describe(mod: tvm.IRModule) -> tuple[str, dict[str, Any]]:
    """Operator (one of `task.OPERATORS`) and JSON-able settings of the unscheduled function `main`.

    The anchor block, the reduction with the most operations, decides; block names are those of TVM's operator
    library. Settings of an NCHW convolution and of a matrix product carry the names that `dataset.operators`
    has, the first also `groups` where it is neither 1 nor depthwise; others list their arguments.
    """
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(mod["main"].body, (SBlock, blocks.append))
    names = [block.name_hint for block in blocks]
    arguments = {"arguments": [{"shape": list(s), "dtype": d} for s, d in argument_buffers(mod)]}
    anchor = find_anchor_sblock(mod)
    if anchor is None:
        return "elementwise", arguments
    if any("softmax" in name for name in names):
        return "softmax", arguments
    if any(name.endswith("_norm") for name in names):
        return "norm", arguments
    if POOL.match(anchor.name_hint):
        return "pool", arguments
    if "matmul" in anchor.name_hint:
        return _matmul(anchor)
    if layout := CONV2D.match(anchor.name_hint):
        if layout.group(2) == "nhwc":
            return "conv2d", arguments
        return _conv2d(anchor, blocks)
    return "other", arguments


def _matmul(anchor: SBlock) -> tuple[str, dict[str, Any]]:
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
        "dtype": dtype,
    }


def _conv2d(anchor: SBlock, blocks: list[SBlock]) -> tuple[str, dict[str, Any]]:
    """Settings of a (grouped) convolution over NCHW data; its loops are n, f, y, x, then channel, ky, kx."""
    data, weight = anchor.reads
    padding = [0, 0]
    source = data.source
    for block in blocks:  # the padded copy of the input, where there is one
        if block.name_hint.startswith("pad_temp") and block.writes[0].source.same_as(source):
            offsets = [_linear(block.reads[0].region[axis].min, block.iter_vars[axis])[1] for axis in (2, 3)]
            padding, source = [-offset for offset in offsets], block.reads[0].source
    batch, in_channels, height, width = _shape(source)
    out_channels, channels_per_group, *kernel = _shape(weight.source)
    settings = {
        "batch": batch,
        "in_channels": in_channels,
        "height": height,
        "width": width,
        "kernel": kernel,
        "stride": [_linear(data.region[axis].min, anchor.iter_vars[axis])[0] for axis in (2, 3)],
        "padding": padding,
        "dilation": [_linear(data.region[axis].min, anchor.iter_vars[axis + 3])[0] for axis in (2, 3)],
        "dtype": str(source.dtype),
    }
    if in_channels == out_channels > 1 and channels_per_group == 1:
        return "depthwise_conv2d", settings
    groups = in_channels // channels_per_group
    return "conv2d", settings | {"out_channels": out_channels} | ({"groups": groups} if groups > 1 else {})


def _shape(buffer: Any) -> list[int]:
    return [int(extent) for extent in buffer.shape]


def _linear(index: Any, iteration: Any) -> tuple[int, int]:
    """Coefficient of the loop variable in `index`, 1 if simplified away, and the constant term."""
    variables = {iteration.var}
    tvm_ffi.structural_walk(index, (tvm.tirx.Var, variables.add))
    ordered = sorted(variables, key=lambda var: not var.same_as(iteration.var))
    terms = detect_linear_equation(index, ordered)
    return (int(terms[0]) or 1, int(terms[-1])) if terms else (1, 0)
