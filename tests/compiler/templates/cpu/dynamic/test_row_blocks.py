"""Blocks of a row: which of them may compute an element twice."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.templates.cpu.contraction import blocks_of
from foretune.compiler.templates.cpu.dynamic.nodes import number
from foretune.compiler.templates.cpu.dynamic.row_kernel import _RowBlock
from tvm import te, tirx

from tests.compiler.templates.cpu.dynamic.kernels import Network, symbol, tensor


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


@pytest.mark.usefixtures("runs_here")
def test_a_number_that_a_size_gives_has_no_plain_schedule() -> None:
    """Elements plus their number, and the number alone."""
    x = tensor("x", symbol("n"))
    number_of = te.compute((), lambda: tirx.Cast("float32", x.shape[0]), name="extent")
    added = te.compute(x.shape, lambda i: x[i] + number_of(), name="added")
    for output in (added, number_of):
        network = Network([x, output], {"n": (1, 40)})
        assert network.kind == "rows"
        run = network.compiled()
        for size in (1, 7, 17, 40):
            values = np.arange(size, dtype=np.float32)
            expected = values + size if output is added else np.float32(size)
            assert np.array_equal(run(values), expected)
