"""Own conversions of ONNX operators to Relax, and operators that are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx

Converter = Callable[[relax.BlockBuilder, Sequence[Any], Mapping[str, Any]], relax.Expr]
"""Relax expression of an operator, from its inputs (None if one is not given) and its attributes."""


def _binary(operator: Callable[..., relax.Expr]) -> Converter:
    def convert(bb: relax.BlockBuilder, inputs: Sequence[Any], _: Mapping[str, Any]) -> relax.Expr:
        return operator(*inputs)

    return convert


def _integer_convolution(
    bb: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> relax.Expr:
    """A convolution of integers less their zeros, in int32."""
    axes = len(inputs[0].ty.shape) - 2
    x, weight = (bb.normalize(relax.op.astype(one, "int32")) for one in inputs[:2])
    if len(inputs) > 2 and inputs[2] is not None:
        x = relax.op.subtract(x, relax.op.astype(inputs[2], "int32"))
    if len(inputs) > 3 and inputs[3] is not None:
        zero = bb.normalize(relax.op.astype(inputs[3], "int32"))
        if len(zero.ty.shape) == 1:
            zero = relax.op.reshape(zero, [-1, *[1] * (axes + 1)])
        weight = relax.op.subtract(weight, zero)
    operator, data, kernel = {
        1: (relax.op.nn.conv1d, "NCW", "OIW"),
        2: (relax.op.nn.conv2d, "NCHW", "OIHW"),
        3: (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
    }[axes]
    return operator(
        bb.normalize(x),
        bb.normalize(weight),
        strides=list(attributes.get("strides", [1] * axes)),
        padding=list(attributes.get("pads", [0] * (2 * axes))),
        dilation=list(attributes.get("dilations", [1] * axes)),
        groups=attributes.get("group", 1),
        data_layout=data,
        kernel_layout=kernel,
        out_dtype="int32",
    )


_BITS = {"float16": ("uint16", 0x7FFF, 0x7C00), "float32": ("uint32", 0x7FFFFFFF, 0x7F800000)}
"""Integer of a floating type's size, its bits without the sign, and those of infinity."""


def _is_nan(bb: relax.BlockBuilder, inputs: Sequence[Any], _: Mapping[str, Any]) -> relax.Expr:
    """By its bits: TVM folds `x != x` to False."""
    x = inputs[0]
    if str(x.ty.dtype) not in _BITS:
        return relax.op.isnan(x)
    integer, digits, infinity = _BITS[str(x.ty.dtype)]

    def compute(values: te.Tensor) -> te.Tensor:
        return te.compute(
            values.shape,
            lambda *at: (
                tirx.reinterpret(integer, values(*at)) & tirx.const(digits, integer)
                > tirx.const(infinity, integer)
            ),
            name="isnan",
            tag="elemwise",
        )

    return bb.call_te(compute, x, primfunc_name_hint="isnan")


_ELEMENTS = {
    **{1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{10: "float16", 11: "float64", 12: "uint32", 13: "uint64"},
}
"""Data types by their numbers in ONNX."""


def _same_bits(bb: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Expr:
    """The bits of each element as one of another type."""
    dtype = _ELEMENTS[attributes["to"]]
    x = inputs[0]
    if str(x.ty.dtype) == "bool":
        x = bb.normalize(relax.op.astype(x, "uint8"))

    def compute(values: te.Tensor) -> te.Tensor:
        return te.compute(
            values.shape, lambda *at: tirx.reinterpret(dtype, values(*at)), name="bitcast", tag="elemwise"
        )

    return bb.call_te(compute, x, primfunc_name_hint="bitcast")


CONVERTERS: Mapping[str, Converter] = {
    "BitCast": _same_bits,
    "IsNaN": _is_nan,
    "Max": _binary(relax.op.maximum),
    "Min": _binary(relax.op.minimum),
    "ConvInteger": _integer_convolution,
}
"""Conversions by operator."""

_SIZES, _RANDOM = "the shape of its output depends on values", "its output is random"
_SEQUENCE = "sequences and optional values are not tensors"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("Compress", "NonMaxSuppression", "AllClassNMS", "NonZero", "Unique"), _SIZES),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), _RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("ConcatFromSequence", "SplitToSequence", "SequenceMap"), _SEQUENCE),
    **dict.fromkeys(("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"), _SEQUENCE),
    **dict.fromkeys(("SequenceInsert", "SequenceLength", "Optional"), _SEQUENCE),
    **dict.fromkeys(("OptionalGetElement", "OptionalHasElement"), _SEQUENCE),
    **dict.fromkeys(("Loop", "Scan"), "it repeats a graph"),
    "If": "its condition depends on values",
    "Dropout": "it is in training mode",
    "MaxRoiPool": "TVM has no such operator",
}
"""Reason for each operator that is refused, although TVM's importer may know it."""

_AXES = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")

CONSTANT: Mapping[str, Mapping[int, str]] = {
    **{name: {1: "axes"} for name in (*_AXES, "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")},
    **{"Squeeze": {1: "axes"}, "Unsqueeze": {1: "axes"}, "CumSum": {1: "axis"}, "CumProd": {1: "axis"}},
    **{"Reshape": {1: "shape"}, "Expand": {1: "shape"}, "ConstantOfShape": {0: "input"}},
    **{"Tile": {1: "repeats"}, "TopK": {1: "K"}, "Split": {1: "split"}, "Trilu": {1: "k"}},
    **{"Pad": {1: "pads", 3: "axes"}, "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"}},
    **{"Resize": {1: "roi", 2: "scales", 3: "sizes"}, "Upsample": {1: "scales"}, "OneHot": {1: "depth"}},
    **{"Range": {0: "start", 1: "limit", 2: "delta"}, "MaxUnpool": {2: "output_shape"}},
    **{"DFT": {1: "dft_length", 2: "axis"}, "STFT": {1: "frame_step", 3: "frame_length"}},
    **{"Col2Im": {1: "image_shape", 2: "block_shape"}, "AffineGrid": {1: "size"}},
}
"""Operands that must be constants, by operator and position."""
