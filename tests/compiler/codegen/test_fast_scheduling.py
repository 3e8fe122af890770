"""LLVM's scheduler with a bound: which targets get it, and that this process's code is built with it."""

from __future__ import annotations

from typing import Any

import tvm
from foretune.compiler.codegen.fast_scheduling import with_bounded_scheduling
from foretune.compiler.codegen.passes import improve_code
from foretune.compiler.operators.shared.matmul import matmul
from foretune.compiler.tvm_compat import as_task_module, parse_target, target_to_json
from tvm import te
from tvm.s_tir import Schedule
from tvm.target import Target

SERVER: dict[str, Any] = {"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 1}
BOUNDED = "-dag-maps-huge-region:uint=200"
UNBOUNDED = "-dag-maps-huge-region:uint=1000"


def unrolled_product() -> tvm.IRModule:
    """A product of 32 x 32 x 16 in one basic block, all of whose sums go through memory."""
    data, weight = te.placeholder((32, 32), "float32"), te.placeholder((32, 16), "float32")
    product = matmul(data, weight, "float32")
    schedule = Schedule(as_task_module(te.create_prim_func([data, weight, product])))
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
    row, column, step = schedule.get_loops(block)
    schedule.reorder(step, row, column)
    schedule.unroll(step)
    schedule.unroll(row)
    schedule.vectorize(column)
    schedule.decompose_reduction(block, step)
    return schedule.mod


def code(**options: Any) -> str:
    return tvm.compile(unrolled_product(), target=Target(SERVER | options)).mod.inspect_source("asm")


def test_the_target_gets_the_option_and_keeps_its_own() -> None:
    own = parse_target(SERVER | {"cl-opt": ["-unroll-count:uint=2"]})
    assert list(with_bounded_scheduling(own).attrs["cl-opt"]) == ["-unroll-count:uint=2", BOUNDED]
    assert target_to_json(own) == target_to_json(parse_target(SERVER | {"cl-opt": ["-unroll-count:uint=2"]}))


def test_an_own_bound_has_priority() -> None:
    own = parse_target(SERVER | {"cl-opt": [UNBOUNDED]})
    assert list(with_bounded_scheduling(own).attrs["cl-opt"]) == [UNBOUNDED]


def test_this_process_builds_with_the_bound() -> None:
    improve_code()
    built = code()
    assert built == code(**{"cl-opt": [BOUNDED]})
    assert built != code(**{"cl-opt": [UNBOUNDED]})
