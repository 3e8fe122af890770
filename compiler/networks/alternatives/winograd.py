"""Winograd's algorithm as an alternative for the 3x3 convolutions of a network (Lavin and Gray, CVPR 2016).

A function is offered if

- it is one convolution of float32 or bfloat16, of a 3x3 kernel, stride 1 and dilation 1 without groups,
  padded alike on opposite sides, channels last, with a constant weight and at most element-wise steps around
  it;
- its channels are whole vectors of the target, which its templates need;
- `gain` expects it to be at least LEAST_GAIN times as fast;
- its rounding errors are small at every place that calls it (`is_accurate`), which leaves tiles of 2x2 in
  bfloat16.

If a target has tiles of AMX for bfloat16 nothing is offered: they multiply faster than they are fed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.target import Target

from ...instruction_sets import step_of
from ...operators.anchor import describe
from ...operators.convolutions.conv2d import Conv2d
from ...operators.convolutions.winograd import KERNEL, TRANSFORMS, Transforms, transform_weight
from ...operators.convolutions.winograd_rounding import is_accurate
from ...targets import require_instructions, target_instructions
from ...templates.cpu.contraction import Contraction, read_contraction
from ...tvm_compat import as_task_module
from ...types import WIDE
from ..lowering.lowering import Lowering
from .alternatives import Alternative, Arguments, Piece, Run, pieces
from .winograd_function import placed_weight, tile_counts, winograd_function

LEAST_GAIN = 1.2
"""Least expected speed-up of a layer that is offered; less is not worth its tuning."""

OPTIMISM = {2: 1.2, 4: 1.5}
"""Expected speed-up over the measured one by tile size, as layers of ResNet-18 have it on a Xeon. Without a
measurement a layer takes Winograd's algorithm only if LEAST_GAIN is left of its expected speed-up."""

_WEIGHT_COST, _TRANSFORM_COST = 8, 8
"""Multiply-adds that take as long as reading an element of a weight, and as one of a transform."""


def winograd_alternatives(mod: tvm.IRModule, target: Target, lowering: Lowering) -> list[Alternative]:
    """Alternatives by the tile sizes of `lowering.winograd`.

    If the target has no multiply-add of vectors of the data type there are none; raises
    MissingInstructionError if the lowering lists tile sizes.
    """
    dtype = lowering.dtype
    find = require_instructions if lowering.demands_winograd else target_instructions
    if not lowering.winograd_tiles or not (instructions := find(target, dtype, dtype, WIDE)):
        return []
    if instructions[0].tiles and not lowering.demands_winograd:
        return []
    lanes = next(instruction.lanes for instruction in instructions if not instruction.tiles)
    return [
        alternative
        for piece in pieces(mod)
        for alternative in _alternatives(piece, lowering.winograd_tiles, lanes, dtype)
    ]


def gain(conv: Conv2d, transforms: Transforms) -> float:
    """Expected latency of a direct convolution over Winograd's, by a closed form in multiply-adds.

    A transform takes twice as many of bfloat16, which take half the time.

    With T tiles, C input and K output channels, and a = m + 2, the products take a^2 T C K multiply-adds in
    place of 9 C K for each output pixel. The transforms touch a^2 T (C + K) elements. The weight has a^2 C K
    elements in place of 9 C K, which small images do not make up for.
    """
    rows, columns = tile_counts(conv, transforms)
    tiles, size = conv.batch * rows * columns, transforms.data_tile**2
    height, width = conv.output_size
    channels = conv.in_channels * conv.out_channels
    direct = KERNEL**2 * channels * (conv.batch * height * width + _WEIGHT_COST)
    moved = _TRANSFORM_COST * step_of(conv.dtype) * tiles * (conv.in_channels + conv.out_channels)
    return direct / (size * (tiles * channels + moved + _WEIGHT_COST * channels))


def _alternatives(piece: Piece, sizes: Sequence[int], lanes: int, dtype: str) -> Iterator[Alternative]:
    """Alternatives to one fused function, whose data and weight are of this type."""
    found = _convolution(piece, dtype)
    if found is None:
        return
    conv, contraction, weight = found
    if conv.in_channels % lanes or conv.out_channels % lanes:
        return
    kernels = [_kernel(site.arguments[0][weight]) for site in piece.sites]
    for transforms in (TRANSFORMS[size] for size in sizes):
        expected = gain(conv, transforms)
        if expected < LEAST_GAIN:
            continue
        if not is_accurate(kernels, transforms, dtype):
            continue
        likely = expected / OPTIMISM[transforms.output_tile]
        yield Alternative(
            kind=f"Winograd F({transforms.output_tile}x{transforms.output_tile}, 3x3)",
            piece=piece,
            functions=(winograd_function(piece.functions[0], contraction, conv, transforms),),
            names=(f"{piece.names[0]}_winograd{transforms.output_tile}",),
            compute=_CallWithTransformedWeight(weight, transforms, dtype),
            gain=likely if likely >= LEAST_GAIN else None,
        )


class _CallWithTransformedWeight:
    """Call of the function with a weight that is transformed ahead of time."""

    def __init__(self, weight: int, transforms: Transforms, dtype: str) -> None:
        self._weight = weight
        self._transforms = transforms
        self._dtype = dtype

    def __call__(self, arguments: Sequence[Arguments], run: Run) -> relax.Expr:
        given = list(arguments[0])
        transformed = transform_weight(_kernel(given[self._weight]), self._transforms)
        given[self._weight] = relax.const(placed_weight(transformed, self._dtype), self._dtype)
        return run(0, given)


def _kernel(constant: relax.Expr) -> NDArray[np.float32]:
    """Weight [3, 3, in_channels, out_channels] of a constant, in float32."""
    return np.asarray(constant.value.numpy().astype(np.float32))


def _convolution(piece: Piece, dtype: str) -> tuple[Conv2d, Contraction, int] | None:
    """Settings of the piece's convolution, and the index of its weight; None for another function."""
    (func,) = piece.functions
    mod = as_task_module(func)
    operator, settings = describe(mod)
    contraction = read_contraction(mod) if operator == Conv2d.operator and "kernel" in settings else None
    if contraction is None or contraction.types != (dtype, dtype, WIDE):
        return None
    conv = Conv2d.from_dict({name: value for name, value in settings.items() if name != "prepack"})
    window = conv.kernel, conv.stride, conv.dilation
    if conv.layout != "NHWC" or window != ((KERNEL, KERNEL), (1, 1), (1, 1)):
        return None
    weights = [
        index
        for index, param in enumerate(func.params)
        if [int(extent) for extent in param.shape] == [KERNEL, KERNEL, conv.in_channels, conv.out_channels]
    ]
    if len(weights) != 1 or not all(
        isinstance(site.arguments[0][weights[0]], tvm.ir.GenericConst) for site in piece.sites
    ):
        return None
    return conv, contraction, weights[0]
