"""The kernel of attention for any number of batches, queries and keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.attention.attention import BlockedAttention, Blocks, Layout
from foretune.compiler.templates.cpu.attention.attention_kernel import symbolic_attention_function
from foretune.compiler.templates.cpu.attention.choice import cycles, symbolic_cycles
from numpy.typing import NDArray
from support.cpus import HERE, TYPES, multiplies
from tvm import tirx

pytestmark = pytest.mark.cpu

HEADS = 3

SIZES = [
    (1, 1),
    (1, 2),
    (5, 7),
    (7, 5),
    (16, 16),
    (17, 33),
    (31, 32),
    (32, 31),
    (33, 65),
    (97, 131),
    (128, 64),
]
"""Queries and keys: the first, primes, and multiples of tiles and blocks with one more or fewer."""


def problem(batch: object, queries: object, keys: object, width: int, masked: bool) -> BlockedAttention:
    """Rows of all heads side by side, and one mask for each batch."""

    def rows(count: object) -> Layout:
        return Layout(0, 0, count * HEADS * width, width, HEADS * width)

    return BlockedAttention(
        batch=batch,
        heads=HEADS,
        queries=queries,
        keys=keys,
        width=width,
        scale=width**-0.5,
        query=rows(queries),
        key=rows(keys),
        value=rows(keys),
        output=rows(queries),
        mask=Layout(0, 0, queries * keys, 0, keys) if masked else None,
    )


def blocks(rows: int, vectors: int, lines: int, panels: int) -> Blocks:
    """Blocks of this CPU, of so many register tiles and panels."""
    (instruction, *_) = (one for one in target_instructions(HERE, *TYPES["float32"]) if not one.tiles)
    return Blocks(instruction, rows, vectors, lines * rows, panels * vectors * instruction.lanes)


def compiled(width: int, masked: bool, chosen: Blocks, keys: int | None = None) -> Callable[..., NDArray]:
    """The kernel for all sizes; `keys` makes their number a constant."""
    batch, queries, symbol = (tirx.Var(name, "int64") for name in "bqk")
    count = symbol if keys is None else keys
    task, columns = problem(batch, queries, count, width, masked), HEADS * width
    shapes = [[batch, size, columns] for size in (queries, count, count, queries)]
    if masked:
        shapes.insert(3, [batch, queries, count])
    symbols = [batch, queries, *([symbol] if keys is None else [])]
    function = symbolic_attention_function(task, chosen, shapes, range(len(shapes) - 1), symbols)
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    run = compile_module(module, HERE).jit()["main"]

    def call(*arrays: NDArray) -> NDArray:
        sizes = [arrays[0].shape[0], arrays[0].shape[1], *([arrays[1].shape[1]] if keys is None else [])]
        inputs = [tvm.runtime.tensor(array.astype(np.float32)) for array in arrays]
        output = tvm.runtime.tensor(np.full_like(arrays[0], 7.0, np.float32))
        run(*inputs, *sizes, output)
        return output.numpy()

    return call


def drawn(batch: int, queries: int, keys: int, width: int, masked: bool) -> list[NDArray]:
    """Query, key, value, and a mask that hides a third of the keys, but the first, of each row."""
    random = np.random.default_rng(queries + keys)
    arrays = [random.standard_normal((batch, size, HEADS * width)) for size in (queries, keys, keys)]
    if masked:
        mask = random.standard_normal((batch, queries, keys))
        mask[random.random(mask.shape) < 1 / 3] = -np.inf
        mask[:, :, 0] = 0.0
        arrays.append(mask)
    return arrays


def expected(*arrays: NDArray) -> NDArray:
    """Output by PyTorch in float64."""
    query, key, value, *mask = map(torch.from_numpy, arrays)

    def of_heads(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(*rows.shape[:2], HEADS, -1).transpose(1, 2)

    scores = of_heads(query) @ of_heads(key).mT * (query.shape[2] // HEADS) ** -0.5
    weights = torch.softmax(scores + sum(one[:, None] for one in mask), -1)
    return (weights @ of_heads(value)).transpose(1, 2).reshape(query.shape).numpy()


@multiplies("float32")
@pytest.mark.parametrize(
    ("width", "masked", "tile"),
    [(16, True, (4, 1, 2, 2)), (20, False, (3, 2, 1, 1)), (32, True, (6, 2, 4, 4))],
)
def test_one_kernel_is_right_at_all_sizes(width: int, masked: bool, tile: tuple[int, ...]) -> None:
    attention = compiled(width, masked, blocks(*tile))
    for batch, (queries, keys) in enumerate(SIZES):
        arrays = drawn(1 + batch % 3, queries, keys, width, masked)
        np.testing.assert_allclose(attention(*arrays), expected(*arrays), rtol=2e-5, atol=2e-6)


@multiplies("float32")
def test_a_fixed_number_of_keys() -> None:
    attention = compiled(16, True, blocks(4, 1, 2, 2), keys=37)
    for queries, _ in SIZES:
        arrays = drawn(2, queries, 37, 16, True)
        np.testing.assert_allclose(attention(*arrays), expected(*arrays), rtol=2e-5, atol=2e-6)


def test_a_small_problem_has_fewer_tiles() -> None:
    """With blocks of 24 by 64: 7 queries are two tiles of 6, and 20 keys two panels of 16."""
    chosen = blocks(6, 2, 4, 4)
    lanes = chosen.lanes
    small = problem(1, 7, lanes * 2 + 1, 16, False)
    same = Blocks(chosen.instruction, 6, 2, 12, 4 * lanes)
    assert symbolic_cycles(small, chosen, 1 << 15, 1) == cycles(small, same, 1 << 15, 1)
    large = problem(1, 480, 640, 16, False)
    assert symbolic_cycles(large, chosen, 1 << 15, 1) == cycles(large, chosen, 1 << 15, 1)
