"""Kernel whose blocks hold whole rows: adds parts of sums, and normalises. Importing it needs Triton."""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from .kernels import activated

LAYER = tl.constexpr(1)
SOFTMAX = tl.constexpr(2)


@triton.jit
def rows_of_parts(
    data,
    bias,
    residual,
    scale,
    shift,
    output,
    rows,
    columns,
    PARTS: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
    NORM: tl.constexpr,
    EPSILON: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """output = norm(activation(sum of data [PARTS, rows, columns] + bias [columns] + residual)).

    Output and residual are [rows, columns].
    NORM is LAYER, followed by scale [columns] and shift [columns], SOFTMAX, or none. The mean and the
    variance are of float32 values in registers (two passes, as PyTorch computes them). The grid is (rows,
    column blocks); a norm needs one block of columns, the least power of two that holds a row.
    """
    row = tl.program_id(0)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    there = n < columns
    sums = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        sums += tl.load(data + (part * rows + row) * columns + n, mask=there, other=0.0).to(tl.float32)
    if BIAS:
        sums += tl.load(bias + n, mask=there, other=0.0).to(tl.float32)
    if RESIDUAL:
        sums += tl.load(residual + row * columns + n, mask=there, other=0.0).to(tl.float32)
    sums = activated(sums, ACTIVATION)
    if NORM == LAYER:
        mean = tl.sum(sums, axis=0) / columns
        apart = tl.where(there, sums - mean, 0.0)
        deviation = tl.rsqrt(tl.sum(apart * apart, axis=0) / columns + EPSILON)
        factor = tl.load(scale + n, mask=there, other=0.0).to(tl.float32)
        sums = apart * deviation * factor + tl.load(shift + n, mask=there, other=0.0).to(tl.float32)
    if NORM == SOFTMAX:
        sums = tl.where(there, sums, float("-inf"))
        sums = tl.exp(sums - tl.max(sums, axis=0))
        sums = sums / tl.sum(sums, axis=0)
    tl.store(output + row * columns + n, sums.to(output.dtype.element_ty), mask=there)
