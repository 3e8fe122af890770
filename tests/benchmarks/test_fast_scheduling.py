"""Programs with and without the scheduler's bound, and which are compared."""

from __future__ import annotations

from foretune.compiler.codegen.fast_scheduling import with_bounded_scheduling
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import trace_to_json
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import parse_target

from benchmarks.fast_scheduling import compared, unbounded

TARGET = parse_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


def test_short_code_is_the_same_and_is_not_run():
    task = to_task(Dense(rows=4, in_features=16, out_features=16, epilogue="bias", prepack=True))
    _, program = next(iter(template_programs(task.mod, TARGET, None)))
    targets = {"unbounded": unbounded(TARGET), "bounded": with_bounded_scheduling(TARGET)}
    assert targets["unbounded"].attrs["cl-opt"] != targets["bounded"].attrs["cl-opt"]
    row = compared(task, trace_to_json(program.trace), TARGET, targets)
    assert row.keys() == {"compile_s"}
    assert all(seconds > 0 for seconds in row["compile_s"].values())
