"""TIR of a fused 3x3 convolution by Winograd's algorithm, with the epilogue that the convolution has.

Tiles have axes of their own, so that schedules can compute a convolution block by block of the image: the
transform of its data, the products and the transform of the outputs
(`templates.winograd_schedule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import te, tirx, topi
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import PrimFunc

from ...instruction_sets import step_of
from ...operators.convolutions.conv2d import Conv2d
from ...operators.convolutions.winograd import KERNEL, Transforms
from ...templates.cpu.contraction import Contraction
from ...templates.cpu.winograd import (
    COLUMNS,
    DATA_PAD,
    DATA_TRANSFORM,
    OUTPUT,
    OUTPUT_ROWS,
    OUTPUT_TRANSFORM,
    PRODUCT,
)
from ...types import WIDE, data_type

MOST_TILES = 14
"""Tiles of a row, or of a part of it, that a schedule can keep in registers."""


def tile_counts(conv: Conv2d, transforms: Transforms) -> tuple[int, int]:
    """Rows and columns of tiles; the last may reach over the edge, and columns are added to make whole parts.

    A part has at most MOST_TILES columns, and at least half as many.
    """
    rows, columns = (ceil(extent / transforms.output_tile) for extent in conv.output_size)
    while columns > MOST_TILES and not any(
        columns % part == 0 for part in range(MOST_TILES // 2, MOST_TILES + 1)
    ):
        columns += 1
    return rows, columns


def placed_weight(transformed: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """A transformed weight as the function takes it.

    float32 [m+2, m+2, in_channels, out_channels] unchanged, or bfloat16 [m+2, m+2, out_channels / panel,
    in_channels / 2, panel, 2]: one instruction adds pairs, and a register tile reads a panel from end to end.
    """
    if (step := step_of(dtype)) == 1:
        return transformed
    *tile, inputs, outputs = transformed.shape
    panel = _panel(outputs)
    split = transformed.reshape(*tile, inputs // step, step, outputs // panel, panel)
    return np.ascontiguousarray(split.transpose(0, 1, 4, 2, 5, 3)).astype(data_type(dtype).numpy)


def _panel(outputs: int) -> int:
    """Output channels of a panel: those of two vectors, which most register tiles have, or else of one."""
    return next(width for width in (32, 16, outputs) if outputs % width == 0)


def winograd_function(
    func: PrimFunc, contraction: Contraction, conv: Conv2d, transforms: Transforms
) -> PrimFunc:
    """The fused convolution `func` with a transformed weight in place of its own, all else unchanged.

    Args:
        func: a function of one convolution, perhaps padding before it, and element-wise steps after it.
        contraction: its computation, as `read_contraction` finds it.
        conv: settings of the convolution.
        transforms: tile size.

    The weight becomes what `placed_weight` makes of a transformed one.
    """
    root = func.body.block
    statements = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    blocks = [_block_of(statement) for statement in statements]
    product = next(block for block in blocks if block.name_hint == contraction.block)
    weight = product.reads[contraction.weight].source
    operand = product.reads[contraction.data].source
    padding = [block for block in blocks if block.writes[0].source.same_as(operand)]
    data = padding[0].reads[0].source if padding else operand
    replaced = [product, *padding]
    own = {block.name_hint for block in replaced}
    sums = product.writes[0].source

    core = te.create_prim_func(_convolution(conv, transforms), index_dtype_override="int64")
    placed = {core.params[0]: data, core.params[2]: sums}
    inner = tvm_ffi.structural_map(
        core.body.block, [(tirx.Buffer, lambda buffer: placed.get(buffer, buffer))]
    )
    padded = {block.writes[0].source for block in replaced} - {sums}
    rest = [
        statement for statement, block in zip(statements, blocks, strict=True) if block.name_hint not in own
    ]
    body = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt([*inner.body.seq, *rest]),
        root.init,
        [*inner.alloc_buffers, *(buffer for buffer in root.alloc_buffers if buffer not in padded)],
        root.match_buffers,
        root.annotations,
    )
    params = [core.params[1] if param.same_as(weight) else param for param in func.params]
    realized = SBlockRealize(func.body.iter_values, func.body.predicate, body)
    return PrimFunc(params, realized, ret_type=func.ret_type, attrs=func.attrs)


def _block_of(statement: Any) -> SBlock:
    """The only block of a loop nest."""
    found: list[SBlock] = []
    tvm_ffi.structural_walk(statement, (SBlock, found.append))
    (block,) = found
    return block


def _convolution(conv: Conv2d, transforms: Transforms) -> list[te.Tensor]:
    """Data, transformed weight and output of the convolution alone, channels last.

    Transforms and sums are float32. In bfloat16 the transformed data and weight are stored as such, and the
    products have a loop over the elements that one instruction adds.
    """
    tile, size, step = transforms.output_tile, transforms.data_tile, step_of(conv.dtype)
    wide, stored = (partial(_as, dtype if conv.dtype != WIDE else None) for dtype in (WIDE, conv.dtype))
    rows, columns = tile_counts(conv, transforms)
    data = te.placeholder(
        (conv.batch, conv.height, conv.width, conv.in_channels), dtype=conv.dtype, name="data"
    )
    inputs, outputs, panel = conv.in_channels // step, conv.out_channels, _panel(conv.out_channels)
    layout = (inputs, outputs) if step == 1 else (outputs // panel, inputs, panel, step)
    weight = te.placeholder((size, size, *layout), conv.dtype, name="weight")
    after = [
        count * tile + KERNEL - 1 - extent - pad
        for count, extent, pad in zip((rows, columns), (conv.height, conv.width), conv.padding, strict=True)
    ]
    padded = topi.nn.pad(data, [0, *conv.padding, 0], [0, *after, 0], name=DATA_PAD)
    tiles = conv.batch, rows, columns
    # One axis after the other takes 2 * size multiply-adds an element, both at once size * size.
    half = te.compute(
        (*tiles, size, size, conv.in_channels),
        lambda n, ty, tx, a, x, c: _combined(
            transforms.data, a, [wide(padded[n, ty * tile + y, tx * tile + x, c]) for y in range(size)]
        ),
        name=COLUMNS,
    )
    transformed = te.compute(
        (size, size, *tiles, conv.in_channels),
        lambda a, b, n, ty, tx, c: stored(
            _combined(transforms.data, b, [half[n, ty, tx, a, x, c] for x in range(size)])
        ),
        name=DATA_TRANSFORM,
    )
    channel = te.reduce_axis((0, inputs), name="rc")
    term = [] if step == 1 else [te.reduce_axis((0, step), name="term")]

    def place(c: Any) -> tuple[Any, ...]:
        return c // panel, channel, c % panel, *term

    product = te.compute(
        (size, size, *tiles, conv.out_channels),
        lambda a, b, n, ty, tx, c: te.sum(
            wide(transformed[a, b, n, ty, tx, sum(term, channel * step)])
            * wide(weight(a, b, *(place(c) if term else (channel, c)))),
            axis=[channel, *term],
        ),
        name=PRODUCT,
    )
    return [data, weight, _outputs(conv, transforms, product)]


def _outputs(conv: Conv2d, transforms: Transforms, product: te.Tensor) -> te.Tensor:
    """Output of the convolution from the products of its tiles."""
    tile, size = transforms.output_tile, transforms.data_tile
    output_rows = te.compute(
        (*product.shape[2:5], tile, size, conv.out_channels),
        lambda n, ty, tx, y, b, c: _combined(
            transforms.output, y, [product[a, b, n, ty, tx, c] for a in range(size)]
        ),
        name=OUTPUT_ROWS,
    )
    output_tiles = te.compute(
        (*product.shape[2:5], tile, tile, conv.out_channels),
        lambda n, ty, tx, y, x, c: _combined(
            transforms.output, x, [output_rows[n, ty, tx, y, b, c] for b in range(size)]
        ),
        name=OUTPUT_TRANSFORM,
    )
    return te.compute(
        (conv.batch, *conv.output_size, conv.out_channels),
        lambda n, y, x, c: output_tiles[n, y // tile, x // tile, y % tile, x % tile, c],
        name=OUTPUT,
    )


def _as(dtype: str | None, value: Any) -> Any:
    return value if dtype is None else value.astype(dtype)


def _combined(matrix: NDArray[Any], row: tirx.Var, values: Sequence[Any]) -> Any:
    """A row of the matrix times the values; unrolled loops over rows make the row's numbers constant."""
    return sum(
        (_number(matrix, row, column) * value for column, value in enumerate(values[1:], 1)),
        _number(matrix, row, 0) * values[0],
    )


def _number(matrix: NDArray[Any], row: tirx.Var, column: int) -> Any:
    """An element of the matrix whose row is a variable."""
    *others, last = [tirx.const(float(value), "float32") for value in matrix[:, column]]
    found: Any = last
    for number, value in reversed(list(enumerate(others))):
        found = tirx.Select(row == number, value, found)
    return found
