"""Structures of scalars and of empty tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.tvm_compat import as_task_module
from tvm import te

NO_INSTRUCTIONS = json.loads("[[],[]]")


def doubled(shape):
    a = te.placeholder(shape, name="a")
    return as_task_module(te.create_prim_func([a, te.compute(shape, lambda *i: a(*i) * 2.0, name="b")]))


def test_a_scalar_is_a_loop_with_one_iteration():
    structure = read_structure(doubled(()))
    (block,) = structure.blocks
    assert (block.extents, block.reduction, block.iterations) == ((1,), (False,), 1.0)
    assert block.writes[0].shape == () and not structure.is_empty
    sketch, values = read_sketch(NO_INSTRUCTIONS, structure)
    nest = Nest.of(sketch, np.array([values], dtype=np.int64))
    touched, run = nest.footprint(block.reads[0])
    assert touched.tolist() == run.tolist() == [[4.0], [4.0]]  # one float32 at both levels


@pytest.mark.parametrize("shape", [(0,), (4, 0)])
def test_a_task_without_iterations_has_no_sketch(shape):
    structure = read_structure(doubled(shape))
    assert structure.is_empty
    with pytest.raises(ValueError, match="block b: a loop has no iteration"):
        read_sketch(NO_INSTRUCTIONS, structure)
