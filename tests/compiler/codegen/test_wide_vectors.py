"""Wide vectors as whole registers and a rest: which loops are split, and that results and registers stay."""

from __future__ import annotations

import re

import pytest
import tvm_ffi
from foretune.compiler.codegen.compilation import compile_module, entries
from foretune.compiler.codegen.wide_vectors import has_wide_sums, with_register_vectors
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import as_task_module, make_tune_context
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te
from tvm.s_tir.schedule import Schedule
from tvm.target import Target
from tvm.tirx import For, ForKind

from tests.support.contractions import Product
from tests.support.products import ordered

SERVER = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
DESKTOP = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
OLD = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
GPU = Target({"kind": "cuda", "arch": "sm_80"})


def copied(extent, dtype="float32", target=SERVER, stored=None, rows=0):
    """Function that stores twice a vector; with rows, those are a loop inside of it."""
    shape = (extent, rows) if rows else (extent,)
    source = te.placeholder(shape, dtype, name="source")
    doubled = te.compute(
        shape, lambda *at: (source(*at) + source(*at)).astype(stored or dtype), name="doubled"
    )
    sch = Schedule(as_task_module(te.create_prim_func([source, doubled])))
    sch.vectorize(sch.get_loops(sch.get_sblock("doubled"))[0])
    return sch.mod["main"].with_attr("target", target)


def vectors(func):
    """Registers and lanes of each loop in vectors, in order."""
    found = []

    def enter(loop, around=1):
        if loop.kind == ForKind.VECTORIZED:
            found.append((around, int(loop.extent)))
            return tvm_ffi.WalkResult.SKIP
        if loop.kind == ForKind.UNROLLED and isinstance(loop.body, For):
            enter(loop.body, int(loop.extent))
            return tvm_ffi.WalkResult.SKIP
        return tvm_ffi.WalkResult.ADVANCE

    tvm_ffi.structural_walk(func.body, (For, enter), order="pre")
    return found


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (copied(58), [(3, 16), (1, 10)]),
        (copied(48), [(3, 16)]),
        (copied(58, target=DESKTOP), [(7, 8), (1, 2)]),
        (copied(58, target=OLD), [(14, 4), (1, 2)]),
        (copied(58, "bfloat16"), [(1, 32), (1, 26)]),
        (copied(58, "bfloat16", stored="float32"), [(3, 16), (1, 10)]),
        (copied(72, "int8"), [(1, 64), (1, 8)]),
    ],
    ids=["rest", "whole", "8 lanes", "4 lanes", "16 bits", "conversion", "8 bits"],
)
def test_a_wide_vector_is_whole_registers_and_a_rest(func, expected):
    assert vectors(with_register_vectors(func)) == expected


@pytest.mark.parametrize(
    "func",
    [
        copied(64),
        copied(15),
        copied(58, "int8"),
        copied(58, target=GPU),
        copied(58, rows=3),
        as_task_module(te.create_prim_func([te.placeholder((58,), name="source")]))["main"],
    ],
    ids=["power of two", "one register", "one register of bytes", "GPU", "loop inside", "no target"],
)
def test_other_functions_stay(func):
    assert with_register_vectors(func).same_as(func)


@pytest.mark.parametrize(
    ("tile", "vectorise", "vector_bits", "wide"),
    [
        (24, True, 256, True),
        (24, True, 512, True),
        (12, True, 512, False),  # in one register
        (16, True, 256, False),  # a power of two
        (24, False, 256, False),
    ],
)
def test_sums_are_wide_where_their_vectors_are_split(tile, vectorise, vector_bits, wide):
    mod = ordered(48, "i", "k", "j", tile=tile, vectorise=vectorise)
    assert has_wide_sums(mod["main"], vector_bits) == wide


def test_wide_copies_are_no_sums():
    assert not has_wide_sums(copied(48), 256)


@settings(max_examples=30, deadline=None)
@given(extent=st.integers(1, 300), target=st.sampled_from([SERVER, DESKTOP, OLD]))
def test_the_lanes_of_all_vectors_are_those_of_the_loop(extent, target):
    found = vectors(with_register_vectors(copied(extent, target=target)))
    assert sum(registers * lanes for registers, lanes in found) == extent
    assert len(found) <= 2


@pytest.mark.parametrize(("columns", "registers"), [(58, 4), (29, 2), (24, 2), (40, 3)])
def test_sums_of_columns_that_are_no_whole_vectors_stay_in_registers(columns, registers):
    """As the code of `improve_code` has it: no multiply-add of scalars, and none of a sum in memory."""
    module = Product(28, columns, 512, epilogue="relu").module()
    context = make_tune_context(module, SERVER, seed=0)
    found = template_programs(module, SERVER, None)
    template, program = next(one for one in found if one[0].ragged == columns)
    assert template.vectors == registers
    candidate = replay(context, trace_to_json(program.trace))
    assert candidate is not None
    timed, _ = entries(candidate.sch.mod, checked=False)
    code = compile_module(timed, SERVER).mod.inspect_source("asm")
    assert "vfmadd231ss" not in code
    blocks = re.split(r"^\.L\w+:", code, flags=re.MULTILINE)
    loop = max(blocks, key=lambda block: block.count("vfmadd231ps"))
    products = loop[loop.index("vfmadd231ps") : loop.rindex("vfmadd231ps")]
    assert products.count("vfmadd231ps") >= template.rows * registers - 1
    assert re.findall(r"vmov\w+\s+%[xyz]mm\d+, [^%\n]*\(", products) == []
