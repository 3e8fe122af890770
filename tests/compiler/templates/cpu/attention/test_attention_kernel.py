"""The kernel of attention: values of any length, masks, hidden rows, and which keys it reads."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.instruction_sets import INSTRUCTION
from foretune.compiler.replay import replay
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.attention.attention import BlockedAttention, Blocks, Layout
from foretune.compiler.templates.cpu.attention.attention_kernel import attention_function
from foretune.compiler.templates.cpu.attention.choice import attention_blocks, cycles, separate_cycles
from foretune.compiler.templates.cpu.programs import template_programs, template_traces
from foretune.compiler.tvm_compat import as_task_module, make_tune_context
from numpy.typing import NDArray
from support.cpus import HERE, TYPES, multiplies

pytestmark = pytest.mark.cpu

AVX2, AVX512 = INSTRUCTION["avx2_fma"], INSTRUCTION["avx512_fma"]


def problem(
    queries: int, keys: int, heads: int = 1, width: int = 16, masked: bool = False
) -> BlockedAttention:
    """Rows of all heads side by side, and one mask for all heads."""

    def rows(count: int) -> Layout:
        return Layout(count * heads * width, 0, 0, width, heads * width)

    return BlockedAttention(
        batch=1,
        heads=heads,
        queries=queries,
        keys=keys,
        width=width,
        scale=width**-0.5,
        query=rows(queries),
        key=rows(keys),
        value=rows(keys),
        output=rows(queries),
        mask=Layout(queries * keys, 0, 0, 0, keys) if masked else None,
    )


def blocks_of(task: BlockedAttention) -> Blocks:
    """The first choice for the CPU that runs the tests."""
    return attention_blocks(task, target_instructions(HERE, *TYPES["float32"]), None, 1)[0]


def computed(task: BlockedAttention, *arrays: NDArray, blocks: Blocks | None = None) -> NDArray:
    """Output of the scheduled kernel on query, key, value, and mask."""
    shape = (task.queries, task.heads * task.width)
    function = attention_function(
        task, blocks or blocks_of(task), [*(array.shape for array in arrays), shape], range(len(arrays))
    )
    ((_, program),) = template_programs(as_task_module(function), HERE, None)
    module, _ = entries(program.mod, checked=False)
    tensors = [tvm.runtime.tensor(array.astype(np.float32)) for array in (*arrays, np.zeros(shape))]
    compile_module(module, HERE).jit()[TIMED](*tensors)
    return tensors[-1].numpy()


def expected(task: BlockedAttention, *arrays: NDArray) -> NDArray:
    """Output by PyTorch in float64."""
    query, key, value, *mask = (torch.from_numpy(array).double() for array in arrays)

    def of_heads(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(-1, task.heads, task.width).transpose(0, 1)

    scores = of_heads(query) @ of_heads(key).mT * task.scale + sum(mask)
    rows = torch.softmax(scores, -1) @ of_heads(value)
    return rows.transpose(0, 1).reshape(task.queries, -1).numpy()


def drawn(task: BlockedAttention) -> list[NDArray]:
    """Query, key, value, and a mask that hides a third of the keys, but the first, of each row."""
    random = np.random.default_rng(task.queries)
    columns = task.heads * task.width
    arrays = [random.standard_normal((count, columns)) for count in (task.queries, task.keys, task.keys)]
    if task.mask is not None:
        mask = random.standard_normal((task.queries, task.keys))
        mask[random.random(mask.shape) < 1 / 3] = -np.inf
        mask[:, 0] = 0.0
        arrays.append(mask)
    return [array.astype(np.float32) for array in arrays]


@multiplies("float32")
def test_weights_of_two_keys() -> None:
    """Scores 0 and log 3 are weights 1/4 and 3/4: 4 / 4 + 3 / 4 * 8 = 7."""
    one, keys, values = np.ones((1, 1)), np.array([[0.0], [math.log(3)]]), np.array([[4.0], [8.0]])
    found = computed(problem(1, 2, width=1), one, keys, values)
    np.testing.assert_allclose(found, [[7.0]], rtol=1e-6)


@multiplies("float32")
def test_exponentials_of_all_sizes() -> None:
    """Scores 0 and x, values 0 and 1: the output is e^x / (1 + e^x), and 0 below x = -87.3."""
    scores = np.linspace(-100, 0, 201)[:, None].astype(np.float32)
    found = computed(problem(201, 2, width=1), scores, np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))
    large, exact = scores > -87, np.exp(scores.astype(np.float64))
    np.testing.assert_allclose(found[large], (exact / (1 + exact))[large], rtol=5e-7)
    assert (found[scores < -87.5] == 0).all()


@multiplies("float32")
@pytest.mark.parametrize(
    ("queries", "keys", "heads", "width", "masked"),
    [
        (1, 1, 1, 16, False),
        (5, 70, 3, 20, True),
        (19, 23, 4, 32, True),
        (70, 67, 2, 80, False),
        (128, 384, 1, 64, True),
    ],
)
def test_values_are_those_of_pytorch(queries: int, keys: int, heads: int, width: int, masked: bool) -> None:
    task = problem(queries, keys, heads, width, masked)
    arrays = drawn(task)
    np.testing.assert_allclose(computed(task, *arrays), expected(task, *arrays), rtol=2e-5, atol=2e-6)


@multiplies("float32")
@pytest.mark.parametrize("zeros", [False, True])
def test_a_row_without_a_key(zeros: bool) -> None:
    """It is NaN, as a softmax gives, or zero, as PyTorch's attention gives; other rows do not change."""
    task = replace(problem(14, 40, masked=True), zeros=zeros)
    arrays = drawn(task)
    arrays[3][6] = -np.inf
    found, others = computed(task, *arrays), [row for row in range(14) if row != 6]
    assert (found[6] == 0).all() if zeros else np.isnan(found[6]).all()
    np.testing.assert_allclose(found[others], expected(task, *arrays)[others], rtol=2e-5, atol=2e-6)


@multiplies("float32")
def test_a_causal_mask_leaves_out_blocks_of_keys() -> None:
    """The last key is NaN. Rows of blocks that end before its block do not read it."""
    (instruction, *_) = (one for one in target_instructions(HERE, *TYPES["float32"]) if not one.tiles)
    blocks = Blocks(instruction, 2, 1, 4, instruction.lanes)
    size = 3 * instruction.lanes
    task = replace(problem(size, size, masked=True), ahead=0)
    arrays = drawn(task)
    arrays[3][:] = np.where(np.tri(size, dtype=bool), 0.0, -np.inf)
    arrays[1][-1] = np.nan
    found = computed(task, *arrays, blocks=blocks)
    first = 2 * instruction.lanes
    arrays[1][-1] = 0.0
    np.testing.assert_allclose(found[:first], expected(task, *arrays)[:first], rtol=2e-5, atol=2e-6)
    assert np.isnan(found[-1]).all()


@multiplies("float32")
def test_the_schedule_is_a_candidate_of_a_search() -> None:
    """Blocks that are left out and a last block of other size have loops of constant extents, too."""
    task = replace(problem(70, 133, masked=True), ahead=63)
    shapes = [(70, 16), (133, 16), (133, 16), (70, 133), (70, 16)]
    module = as_task_module(attention_function(task, Blocks(AVX2, 6, 2, 12, 64), shapes, range(4)))
    (trace,) = template_traces(module, HERE, None, 4)
    assert replay(make_tune_context(module, HERE, seed=0), trace) is not None


@pytest.mark.parametrize("instruction", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(("queries", "keys", "width"), [(1, 1, 1), (5, 1500, 64), (1500, 1500, 80)])
def test_blocks_fit_the_attention(instruction, queries: int, keys: int, width: int) -> None:
    task = problem(queries, keys, 2, width)
    found = attention_blocks(task, [instruction], None, 2)
    assert found
    for blocks in found:
        assert blocks.queries % blocks.rows == 0 and blocks.queries <= queries
        assert blocks.keys % blocks.columns == 0 and blocks.rows <= instruction.most_rows(blocks.vectors)


def test_scores_beyond_the_cache_take_longer() -> None:
    """Only separate functions store them; a causal mask leaves out half of the blocks of keys."""
    task = problem(512, 512, 8, 64)
    assert separate_cycles(task, AVX2, 1 << 20, 1) > separate_cycles(task, AVX2, 1 << 24, 1)
    causal = replace(problem(512, 512, 8, 64, masked=True), ahead=0)
    blocks = attention_blocks(causal, [AVX2], None, 1)[0]
    assert cycles(causal, blocks, 1 << 15, 1) < 0.7 * cycles(replace(causal, ahead=None), blocks, 1 << 15, 1)
