"""The kernel of attention in bfloat16, for fixed and for symbolic numbers of queries and keys."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.instruction_sets import INSTRUCTION
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.attention.attention import BlockedAttention, Blocks, Layout
from foretune.compiler.templates.cpu.attention.attention_kernel import (
    attention_function,
    symbolic_attention_function,
)
from foretune.compiler.templates.cpu.attention.choice import attention_blocks, cycles, separate_cycles
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import as_task_module
from foretune.compiler.types import WIDE, data_type, numpy_type
from numpy.typing import NDArray
from support.cpus import HERE, TYPES, multiplies
from tvm import tirx

pytestmark = pytest.mark.cpu

NARROW = "bfloat16"
BF16 = INSTRUCTION["avx512_bf16"]


def problem(queries: int, keys: int, heads: int = 1, width: int = 16, **changed: object) -> BlockedAttention:
    """Rows of all heads side by side."""

    def rows(count: int) -> Layout:
        return Layout(count * heads * width, 0, 0, width, heads * width)

    sizes = {"batch": 1, "heads": heads, "queries": queries, "keys": keys, "width": width}
    made = BlockedAttention(
        **sizes,
        scale=width**-0.5,
        query=rows(queries),
        key=rows(keys),
        value=rows(keys),
        output=rows(queries),
        dtype=NARROW,
        output_dtype=NARROW,
    )
    return replace(made, **changed)


def masked(task: BlockedAttention, dtype: str) -> BlockedAttention:
    """The attention with one mask for all heads."""
    return replace(task, mask=Layout(task.queries * task.keys, 0, 0, 0, task.keys), mask_dtype=dtype)


def drawn(task: BlockedAttention) -> list[NDArray]:
    """Query, key, value, and a mask that hides a third of the keys, but the first, of each row."""
    random = np.random.default_rng(task.queries)
    columns = task.heads * task.width
    shapes = [(count, columns) for count in (task.queries, task.keys, task.keys)]
    arrays = [random.standard_normal(shape).astype(numpy_type(task.dtype)) for shape in shapes]
    if task.mask is not None:
        mask = random.standard_normal((task.queries, task.keys))
        mask[random.random(mask.shape) < 1 / 3] = -np.inf
        mask[:, 0] = 0.0
        arrays.append(mask.astype(numpy_type(task.mask_dtype)))
    return arrays


def computed(task: BlockedAttention, *arrays: NDArray) -> NDArray:
    """Output of the scheduled kernel on query, key, value, and mask."""
    shape = (task.queries, task.heads * task.width)
    blocks = attention_blocks(task, target_instructions(HERE, *TYPES[NARROW]), None, 1)[0]
    shapes = [*(array.shape for array in arrays), shape]
    function = attention_function(task, blocks, shapes, range(len(arrays)))
    ((_, program),) = template_programs(as_task_module(function), HERE, None)
    module, _ = entries(program.mod, checked=False)
    output = np.full(shape, 7.0, numpy_type(task.output_dtype))
    tensors = [tvm.runtime.tensor(array) for array in (*arrays, output)]
    compile_module(module, HERE).jit()[TIMED](*tensors)
    return tensors[-1].numpy().astype(np.float64)


def compare(task: BlockedAttention, found: NDArray, *arrays: NDArray) -> None:
    """Compares with PyTorch in float64: weights and outputs round by up to 2^-9 of the largest value."""
    query, key, value, *mask = (torch.from_numpy(array.astype(np.float64)) for array in arrays)

    def of_heads(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(-1, task.heads, task.width).transpose(0, 1)

    scores = of_heads(query) @ of_heads(key).mT * task.scale + sum(mask)
    rows = torch.softmax(scores, -1) @ of_heads(value)
    expected = rows.transpose(0, 1).reshape(task.queries, -1).numpy()
    tolerance = data_type(NARROW).tolerances.rounding * float(np.abs(arrays[2].astype(np.float64)).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@multiplies(NARROW)
@pytest.mark.parametrize("keys", [1, 2, 3, 5, 33])
def test_equal_scores_give_the_mean(keys: int) -> None:
    """Also of an odd number of columns and of keys, whose last pair has one element."""
    values = np.arange(keys, dtype=np.float64)[:, None].astype(ml_dtypes.bfloat16)
    one = np.ones((1, 1), ml_dtypes.bfloat16)
    zeros = np.zeros((keys, 1), ml_dtypes.bfloat16)
    assert computed(problem(1, keys, width=1), one, zeros, values) == (keys - 1) / 2


@multiplies(NARROW)
@pytest.mark.parametrize(
    ("queries", "keys", "heads", "width"),
    [(1, 1, 1, 16), (5, 70, 3, 21), (19, 23, 4, 32), (70, 67, 2, 80), (128, 384, 1, 64)],
)
@pytest.mark.parametrize("mask", [None, WIDE, NARROW])
def test_values_are_those_of_pytorch(
    queries: int, keys: int, heads: int, width: int, mask: str | None
) -> None:
    task = problem(queries, keys, heads, width)
    task = task if mask is None else masked(task, mask)
    arrays = drawn(task)
    compare(task, computed(task, *arrays), *arrays)


@multiplies(NARROW)
def test_float32_arrays_are_rounded_as_factors_and_the_output_is_not() -> None:
    task = problem(9, 21, 2, 20, dtype=WIDE, output_dtype=WIDE)
    arrays = drawn(task)
    found = computed(task, *arrays)
    rounded = [array.astype(ml_dtypes.bfloat16) for array in arrays]
    compare(task, found, *rounded)
    assert (found != found.astype(ml_dtypes.bfloat16)).any()


@multiplies(NARROW)
@pytest.mark.parametrize(("width", "tile"), [(16, (4, 1, 2, 2)), (21, (3, 2, 1, 1)), (64, (6, 4, 4, 2))])
def test_one_kernel_is_right_at_all_sizes(width: int, tile: tuple[int, ...]) -> None:
    rows, vectors, lines, panels = tile
    blocks = Blocks(BF16, rows, vectors, lines * rows, panels * vectors * BF16.lanes)
    queries, keys = tirx.Var("q", "int64"), tirx.Var("k", "int64")
    shapes = [[queries, 2 * width], [keys, 2 * width], [keys, 2 * width], [queries, 2 * width]]
    made = symbolic_attention_function(
        problem(queries, keys, 2, width), blocks, shapes, range(3), [queries, keys]
    )
    module = tvm.IRModule({"main": made.with_attr("global_symbol", "main")})
    run = compile_module(module, HERE).jit()["main"]
    for size in ((1, 1), (1, 2), (5, 7), (17, 33), (32, 31), (97, 131), (128, 64)):
        task = problem(*size, 2, width)
        arrays = drawn(task)
        output = tvm.runtime.tensor(np.full((size[0], 2 * width), 7.0, ml_dtypes.bfloat16))
        run(*map(tvm.runtime.tensor, arrays), *size, output)
        compare(task, output.numpy().astype(np.float64), *arrays)


def test_pairs_take_half_the_steps_and_half_the_memory() -> None:
    """Exponentials take as long as in float32, so that the whole is less than twice as fast."""
    wide = INSTRUCTION["avx512_fma"]
    task = problem(512, 512, 8, 64)
    blocks = Blocks(BF16, 6, 4, 48, 128)
    narrow_s, wide_s = (cycles(task, replace(blocks, instruction=one), 1 << 15, 1) for one in (BF16, wide))
    assert wide_s / 2 < narrow_s < wide_s
    assert separate_cycles(task, BF16, 1 << 20, 1) < separate_cycles(task, wide, 1 << 20, 1)
