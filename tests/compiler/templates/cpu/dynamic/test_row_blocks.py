"""Blocks of a row: which of them may compute an element twice."""

from __future__ import annotations

import tvm
from foretune.compiler.templates.cpu.contraction import blocks_of
from foretune.compiler.templates.cpu.dynamic.nodes import number
from foretune.compiler.templates.cpu.dynamic.row_kernel import _RowBlock
from tvm import te

from tests.compiler.templates.cpu.dynamic.kernels import symbol, tensor


def test_elements_from_another_array_of_the_function_are_computed_once() -> None:
    """TVM lets the second array take the place of the first one, which is read for the last time."""
    x = tensor("x", 1, symbol("n"), symbol("m"))
    first = te.compute(x.shape, lambda *at: te.exp(x(*at)), name="first")
    second = te.compute(x.shape, lambda *at: first(*at) + 1, name="second")
    third = te.compute(x.shape, lambda *at: second(*at) * 2, name="third")
    func = te.create_prim_func([x, third], index_dtype_override="int64")
    blocks = blocks_of(tvm.IRModule({"main": func}))
    kept = {blocks[1].writes[0].source: blocks[1].writes[0].source}  # for one row; the first array is not
    once = [_RowBlock(block, [number(0)], kept, set(func.params)).reads_and_keeps for block in blocks]
    assert once == [False, True, False]
