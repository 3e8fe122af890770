"""Prefetches of packed weights: which loops have them, which lines they fetch, and that results stay."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
import tvm
import tvm_ffi
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.codegen.prefetching import MOST_PASSES, PREFETCHED, with_prefetches
from foretune.compiler.instruction_sets import INSTRUCTION
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.choice import ranked
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.programs import scheduled, template_programs
from foretune.compiler.templates.cpu.template import ROWS_FIRST
from foretune.compiler.tvm_compat import make_tune_context, target_cores
from tvm.ir import Call
from tvm.s_tir.schedule import ScheduleError
from tvm.sym import Analyzer
from tvm.target import Target
from tvm.tirx import For, PrimFunc, Var, const

from tests.support.contractions import Convolution, Product
from tests.support.cpus import cpu, require

SERVER = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
PAIRS, TILES = INSTRUCTION["avx512_bf16"], INSTRUCTION["amx_bf16"]


def program(case, target=SERVER, **wanted):
    """Module of the first template with these parameters, its weight packed, and its arguments."""
    mod = case.module()
    task = read_contraction(mod)
    for template, _ in ranked(task, target_instructions(target, *task.types), None, target_cores(target)):
        if all(getattr(template, k) == v for k, v in wanted.items()):
            with suppress(ScheduleError):
                trace = trace_to_json(scheduled(mod, task, template, target).trace)
                candidate = replay(make_tune_context(mod, target, seed=0), trace)
                module, buffers = entries(candidate.sch.mod, checked=False)
                return module, buffers[TIMED]
    raise AssertionError(f"no template with {wanted}")


def prefetches(func: PrimFunc) -> list[tuple[tuple[For, ...], object]]:
    """Loops around each prefetch of a function, and its offset in elements."""
    found = []

    def visit(node, loops):
        def enter(loop):
            visit(loop.body, (*loops, loop))
            return tvm_ffi.WalkResult.SKIP

        def call(one):
            if one.op.name == "tirx.call_extern" and "foretune_prefetch" in str(one.args[0]):
                found.append((loops, one.args[1].args[2]))
            return tvm_ffi.WalkResult.ADVANCE

        tvm_ffi.structural_walk(node, [(For, enter), (Call, call)], order="pre")

    visit(func.body, ())
    return found


def fetched(func: PrimFunc, panel: int, bits: int) -> set[int]:
    """Numbers of the lines that the passes over a panel fetch."""
    lines = set()
    for (first, *inside), offset in prefetches(func):
        for numbers in product(*(range(int(loop.extent)) for loop in inside)):
            names = [first.loop_var, *(loop.loop_var for loop in inside)]
            values = dict(zip(names, (panel, *numbers), strict=True))
            at = tvm_ffi.structural_map(
                offset, (Var, lambda var, values=values: const(values[var], var.ty.dtype))
            )
            lines.add(int(Analyzer().simplify(at)) * bits // 512)
    return lines


@pytest.mark.parametrize(
    ("case", "wanted", "panel"),
    [
        (Product(32, 128, 48), {"row_tile": (8,), "vectors": 2, "unroll": 4}, 2 * 48),
        (Product(14, 192, 20), {"row_tile": (7,), "vectors": 3}, 3 * 20),
        (Product(64, 128, 64, "bfloat16"), {"instruction": PAIRS, "row_tile": (8,), "vectors": 2}, 2 * 32),
        (Convolution(4, 16, 128, kernel=3, padding=1), {"row_tile": (1, 1, 4), "vectors": 2}, 2 * 9 * 16),
    ],
    ids=["product", "rows of two passes", "pairs", "convolution"],
)
def test_the_passes_over_a_panel_fetch_all_lines_of_the_next_one(case, wanted, panel):
    module, _ = program(case, order="columns", **wanted)
    func = with_prefetches(module["main"])
    bits = 16 if case.dtype == "bfloat16" else 32
    for number in (0, 1):
        ahead = range((number + 1) * panel, (number + 2) * panel)
        lines = fetched(func, number, bits)
        assert set(ahead) <= lines <= set(range(ahead.start, ahead.stop + panel))


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (Product(32, 128, 48), {"order": ROWS_FIRST}),
        (Product(8, 128, 48), {"row_tile": (8,), "order": "columns"}),
        (Product(4 * (MOST_PASSES + 1), 128, 48), {"row_tile": (4,), "order": "columns"}),
        (Product(64, 128, 64, "bfloat16"), {"instruction": TILES, "order": "columns"}),
        (Product(64, 128, 64, "uint8"), {"order": "columns"}),
        (Product(32, 128, 48, batch=2), {"order": "columns"}),
    ],
    ids=["weights again for each row", "one pass", "many passes", "tiles", "8 bits", "no constant weight"],
)
def test_other_loops_have_none(case, wanted):
    module, _ = program(case, **wanted)
    assert with_prefetches(module["main"]).same_as(module["main"])


def test_a_marked_loop_over_weights_that_are_not_packed_has_none():
    mod = Product(32, 128, 48).module()
    module, _ = program(Product(32, 128, 48), row_tile=(8,), vectors=2, order="columns")
    assert prefetches(with_prefetches(module["main"]))
    (_, found) = next(
        one
        for one in template_programs(mod, SERVER, None)
        if one[0].order == "columns" and one[0].vectors == 2
    )
    unpacked = found.mod["main"]  # before postprocessing the weight has the task's layout
    assert PREFETCHED in unpacked.script()
    assert not prefetches(with_prefetches(unpacked))


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
def test_the_result_is_the_same_and_the_code_has_prefetches(name):
    """Panels of one vector of 8 columns, and of two of 16."""
    target = cpu(name)
    case = Product(32, 256, 48, epilogue="relu")
    module, buffers = program(case, target, order="columns", row_tile=(8,))
    rng = np.random.default_rng(0)
    arguments = [tvm.runtime.tensor(rng.standard_normal(shape).astype(dtype)) for shape, dtype in buffers]
    compiled = compile_module(module, target)
    assert re.search(r"prefetch", compiled.mod.inspect_source("asm"))
    require(target)
    compiled[TIMED](*arguments)
    data, weight, bias, output = (argument.numpy() for argument in arguments)
    panels, depth = weight.shape[0], data.shape[1]
    plain = weight.reshape(panels, depth, -1).transpose(1, 0, 2).reshape(depth, -1)
    np.testing.assert_allclose(output, np.maximum(data @ plain + bias, 0), rtol=1e-4, atol=1e-4)
