"""Small arrays of a thread on the stack: which ones, and that sums do not go through memory."""

from __future__ import annotations

from itertools import islice

import pytest
import tvm
import tvm_ffi
from foretune.compiler.codegen.compilation import compile_module, entries
from foretune.compiler.codegen.passes import EXACT_ARRAYS, STACK_BYTES, improve_code, with_local_arrays
from foretune.compiler.operators.shared.epilogue import fuse
from foretune.compiler.operators.shared.matmul import matmul
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.templates.cpu.dynamic.nodes import (
    allocated,
    local,
    scheduled_function,
    sequence,
    store,
)
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target, with_layout_free
from tvm import te, tirx
from tvm.target import Target
from tvm.tirx.compilation_pipeline import PIPELINE_MAP

SERVER = parse_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})


def function(elements: int, scope: str, target: Target) -> tirx.PrimFunc:
    """A function that only allocates an array of float32."""
    buffer = tirx.decl_buffer((elements,), "float32", scope=scope)
    body = tirx.SeqStmt([tirx.AllocBuffer(buffer), tirx.Evaluate(buffer[0])])
    return tirx.PrimFunc([], body).with_attr("target", target)


def annotations(func: tirx.PrimFunc) -> dict[str, object]:
    return dict(func.body.seq[0].annotations)


def test_small_local_arrays_are_left_to_llvm() -> None:
    assert annotations(with_local_arrays(function(STACK_BYTES // 4, "local", SERVER)))


@pytest.mark.parametrize(
    ("elements", "scope", "target"),
    [
        (STACK_BYTES // 4 + 1, "local", SERVER),
        (16, "global", SERVER),
        (16, "local", Target("nvidia/nvidia-h100")),
    ],
)
def test_others_stay_as_they_are(elements: int, scope: str, target: Target) -> None:
    func = function(elements, scope, target)
    assert with_local_arrays(func).same_as(func)


def test_sums_of_a_tile_do_not_come_from_the_memory_manager() -> None:
    data, weight = (te.placeholder(shape, "float32") for shape in ((28, 64), (64, 96)))
    others, output = fuse(matmul(data, weight, "float32"), "bias_relu", (96,))
    func = te.create_prim_func([data, weight, *others, output], index_dtype_override="int64")
    module = as_task_module(with_layout_free(func, [1]))
    context = make_tune_context(module, SERVER, seed=0)
    found = [
        (template, replay(context, trace_to_json(program.trace)).sch.mod)
        for template, program in islice(template_programs(module, SERVER, None), 8)
    ]
    large = [mod for template, mod in found if template.rows * template.vectors > 16]  # over a kilobyte
    assert large
    for mod in large:
        source = compile_module(entries(mod, checked=False)[0], SERVER).mod.inspect_source("ll")
        assert "AllocWorkspace" not in source


def test_arrays_that_are_said_to_be_exact_are_not_shrunk() -> None:
    """Of an array of 64 elements, one is used."""
    x, y = (tirx.decl_buffer((1,), "float32", name) for name in "xy")
    kept = local([64], "float32", "kept")
    body = allocated([kept], sequence(store(kept, x[0], [0]), store(y, kept[0], [0])))
    exact = scheduled_function([x, y], body).with_attr("target", Target(SERVER, host=SERVER))
    improve_code()

    def elements(functions: dict[str, tirx.PrimFunc]) -> list[int]:
        named = {name: func.with_attr("global_symbol", name) for name, func in functions.items()}
        with SERVER:
            lowered = PIPELINE_MAP["s_tir"]()[0](tvm.IRModule(named))
        found: list[tirx.AllocBuffer] = []
        for name in functions:
            tvm_ffi.structural_walk(lowered[name].body, (tirx.AllocBuffer, found.append))
        return [int(one.buffer.shape[0]) for one in found if one.buffer.scope() == "local"]

    shrunk = exact.without_attr(EXACT_ARRAYS)
    assert elements({"exact": exact}) == [64] and elements({"shrunk": shrunk}) == [1]
    assert elements({"exact": exact, "shrunk": shrunk}) == [64, 1]
