"""Kernel of attention, which keeps no scores in memory. Importing it needs Triton."""

# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


@triton.jit
def attention(
    query,
    key,
    value,
    mask,
    output,
    queries,
    keys,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    SCALE: tl.constexpr,
    MASK: tl.constexpr,
    Q_START: tl.constexpr,
    Q_BATCH: tl.constexpr,
    Q_HEAD: tl.constexpr,
    Q_ROW: tl.constexpr,
    K_START: tl.constexpr,
    K_BATCH: tl.constexpr,
    K_HEAD: tl.constexpr,
    K_ROW: tl.constexpr,
    V_START: tl.constexpr,
    V_BATCH: tl.constexpr,
    V_HEAD: tl.constexpr,
    V_ROW: tl.constexpr,
    M_START: tl.constexpr,
    M_BATCH: tl.constexpr,
    M_HEAD: tl.constexpr,
    M_ROW: tl.constexpr,
    O_START: tl.constexpr,
    O_BATCH: tl.constexpr,
    O_HEAD: tl.constexpr,
    O_ROW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """output = softmax(SCALE query key^T + mask) value for each batch and head, in one pass over the keys.

    The largest score and the sum of exponentials of a row are corrected block by block (Milakov and
    Gimelshein 2018; Dao et al. 2022, Algorithm 1). Rows of query [queries, WIDTH], key and value [keys,
    WIDTH] and output, and of mask [queries, keys], start where START, BATCH, HEAD and ROW say; their elements
    are adjacent. Factors in float32 are not rounded to TF32. A row without any finite score is zero. The grid
    is (query blocks, batches times HEADS).
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    batch = tl.program_id(1) // HEADS
    head = tl.program_id(1) % HEADS
    d = tl.arange(0, BLOCK_D)
    wide = d < WIDTH
    of_rows = (m < queries)[:, None] & wide[None, :]
    query += Q_START + batch * Q_BATCH + head * Q_HEAD
    key += K_START + batch * K_BATCH + head * K_HEAD
    value += V_START + batch * V_BATCH + head * V_HEAD
    q = tl.load(query + m[:, None] * Q_ROW + d[None, :], mask=of_rows, other=0.0)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    sums = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in range(0, keys, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        there = n < keys
        k = tl.load(key + n[None, :] * K_ROW + d[:, None], mask=wide[:, None] & there[None, :], other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * SCALE
        if MASK:
            at = mask + M_START + batch * M_BATCH + head * M_HEAD + m[:, None] * M_ROW + n[None, :]
            scores += tl.load(at, mask=(m < queries)[:, None] & there[None, :], other=0.0).to(tl.float32)
        scores = tl.where(there[None, :], scores, float("-inf"))
        peak = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(peak == float("-inf"), 0.0, peak)
        weights = tl.exp(scores - base[:, None])
        kept = tl.exp(largest - base)
        total = total * kept + tl.sum(weights, axis=1)
        v = tl.load(value + n[:, None] * V_ROW + d[None, :], mask=there[:, None] & wide[None, :], other=0.0)
        sums = tl.dot(weights.to(v.dtype), v, sums * kept[:, None], input_precision="ieee")
        largest = peak
    sums = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    at = output + O_START + batch * O_BATCH + head * O_HEAD + m[:, None] * O_ROW + d[None, :]
    tl.store(at, sums.to(output.dtype.element_ty), mask=of_rows)
