"""Kernels of the templates (Bolt sections 3.1 and 3.1.1). Importing this module needs Triton.

Matrices are row-major in float16 or bfloat16; sums are float32, and what is added to them may be. Sizes that
no tile divides are masked.
TRITON_INTERPRET=1, set before the import, runs the kernels on a CPU.
"""

# Triton reads the signatures: an array or a number has no annotation that it would take.
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

NONE = tl.constexpr(0)
RELU = tl.constexpr(1)
GELU = tl.constexpr(2)
HARDSWISH = tl.constexpr(3)
SILU = tl.constexpr(4)
SOFTPLUS = tl.constexpr(5)


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    """An epilogue's activation of float32 sums; see `problem.ACTIVATIONS`."""
    if ACTIVATION == RELU:
        x = tl.maximum(x, 0.0)
    if ACTIVATION == GELU:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == HARDSWISH:
        x = x * tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) / 6.0
    if ACTIVATION == SILU:
        x = x * tl.sigmoid(x)
    if ACTIVATION == SOFTPLUS:
        x = tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))
    return x


@triton.jit
def _part(depth, PARTS: tl.constexpr, BLOCK_K: tl.constexpr):
    """First and end of the share of the depth that the blocks of this part add, in whole blocks."""
    first, end = 0, depth
    if PARTS > 1:
        share = tl.cdiv(tl.cdiv(depth, BLOCK_K), PARTS) * BLOCK_K
        first = tl.program_id(2) * share
        end = tl.minimum(first + share, depth)
    return first, end


@triton.jit
def _store(
    sums, bias, residual, output, m, n, rows, columns, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Writes a tile [BLOCK_M, BLOCK_N] of the output, after its epilogue, at rows `m` and columns `n`."""
    places = m[:, None] * columns + n[None, :]
    offset = tl.program_id(2) * rows * columns
    written = (m < rows)[:, None] & (n < columns)[None, :]
    if BIAS:
        sums += tl.load(bias + n, mask=n < columns, other=0.0).to(tl.float32)[None, :]
    if RESIDUAL:
        sums += tl.load(residual + places, mask=written, other=0.0).to(tl.float32)
    tl.store(output + offset + places, activated(sums, ACTIVATION).to(output.dtype.element_ty), mask=written)


@triton.jit
def product(
    left,
    right,
    bias,
    residual,
    output,
    rows,
    columns,
    depth,
    PARTS: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """output = activation(left [rows, depth] right [depth, columns] + bias [columns] + residual).

    Output and residual are [rows, columns]; what BIAS and RESIDUAL do not ask for is not read. The grid is
    (row blocks, column blocks, PARTS): the blocks of a part add their share of the depth, and write it to
    output [PARTS, rows, columns].
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    first, end = _part(depth, PARTS, BLOCK_K)
    for start in range(first, end, BLOCK_K):
        at = start + k
        a = tl.load(
            left + m[:, None] * depth + at[None, :],
            mask=(m < rows)[:, None] & (at < depth)[None, :],
            other=0.0,
        )
        b = tl.load(
            right + at[:, None] * columns + n[None, :],
            mask=(at < depth)[:, None] & (n < columns)[None, :],
            other=0.0,
        )
        sums = tl.dot(a, b, sums)
    _store(sums, bias, residual, output, m, n, rows, columns, BIAS, RESIDUAL, ACTIVATION)


@triton.jit
def convolution(
    data,
    weight,
    bias,
    residual,
    output,
    batch,
    height,
    width,
    channels,
    out_height,
    out_width,
    filters,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    PARTS: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Convolution as an implicit product: rows are output pixels, the depth runs over window and channels.

    data [batch, height, width, channels], weight [kh, kw, channels, filters], bias [filters], residual and
    output [batch, out_height, out_width, filters]; see `product`, also for PARTS. The grid is (pixel blocks,
    filter blocks, PARTS).
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    pixels = batch * out_height * out_width
    image = m // (out_height * out_width)
    top = (m // out_width) % out_height * STRIDE - PADDING
    left = m % out_width * STRIDE - PADDING
    depth = KERNEL_H * KERNEL_W * channels
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    first, end = _part(depth, PARTS, BLOCK_K)
    for start in range(first, end, BLOCK_K):
        at = start + k
        tap = at // channels
        y = top[:, None] + (tap // KERNEL_W)[None, :]
        x = left[:, None] + (tap % KERNEL_W)[None, :]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        a = tl.load(
            data + ((image[:, None] * height + y) * width + x) * channels + (at % channels)[None, :],
            mask=inside & (m < pixels)[:, None] & (at < depth)[None, :],
            other=0.0,
        )
        b = tl.load(
            weight + at[:, None] * filters + n[None, :],
            mask=(at < depth)[:, None] & (n < filters)[None, :],
            other=0.0,
        )
        sums = tl.dot(a, b, sums)
    _store(sums, bias, residual, output, m, n, pixels, filters, BIAS, RESIDUAL, ACTIVATION)


@triton.jit
def back_to_back(
    left,
    first,
    first_bias,
    second,
    second_bias,
    output,
    rows,
    depth,
    MIDDLE: tl.constexpr,
    COLUMNS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Two products in one kernel: act(act(left first + first_bias) second + second_bias).

    left [rows, depth], first [depth, MIDDLE], second [MIDDLE, COLUMNS], output [rows, COLUMNS]. A block keeps
    its rows of the first product in registers: threadblock residence, so that MIDDLE and COLUMNS are whole
    tiles, powers of two of 16 or more (section 3.1.1). The grid is (row blocks,).
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    middle = tl.arange(0, MIDDLE)
    n = tl.arange(0, COLUMNS)
    k = tl.arange(0, BLOCK_K)
    sums = tl.zeros((BLOCK_M, MIDDLE), dtype=tl.float32)
    for start in range(0, depth, BLOCK_K):
        at = start + k
        a = tl.load(
            left + m[:, None] * depth + at[None, :],
            mask=(m < rows)[:, None] & (at < depth)[None, :],
            other=0.0,
        )
        b = tl.load(first + at[:, None] * MIDDLE + middle[None, :], mask=(at < depth)[:, None], other=0.0)
        sums = tl.dot(a, b, sums)
    sums += tl.load(first_bias + middle).to(tl.float32)[None, :]
    kept = activated(sums, ACTIVATION).to(left.dtype.element_ty)
    again = tl.dot(kept, tl.load(second + middle[:, None] * COLUMNS + n[None, :]))
    again += tl.load(second_bias + n).to(tl.float32)[None, :]
    tl.store(
        output + m[:, None] * COLUMNS + n[None, :],
        activated(again, ACTIVATION).to(output.dtype.element_ty),
        mask=(m < rows)[:, None],
    )
