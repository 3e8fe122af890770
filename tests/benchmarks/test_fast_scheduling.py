"""Programs with and without the scheduler's bound: what is compared, and the table."""

from __future__ import annotations

from types import SimpleNamespace

from foretune.compiler.codegen.fast_scheduling import with_bounded_scheduling
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import trace_to_json
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import parse_target

from benchmarks.fast_scheduling.__main__ import compared, unbounded
from benchmarks.tables.templates import scheduling

TARGET = parse_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})


def test_short_code_is_the_same_and_is_not_run():
    task = to_task(Dense(rows=4, in_features=16, out_features=16, epilogue="bias", prepack=True))
    _, program = next(iter(template_programs(task.mod, TARGET, None)))
    targets = {"unbounded": unbounded(TARGET), "bounded": with_bounded_scheduling(TARGET)}
    assert targets["unbounded"].attrs["cl-opt"] != targets["bounded"].attrs["cl-opt"]
    row = compared(task, trace_to_json(program.trace), TARGET, targets)
    assert row.keys() == {"compile_s"}
    assert all(seconds > 0 for seconds in row["compile_s"].values())


def test_the_table_has_the_slowest_tenth_and_what_changed():
    short = [{"compile_s": {"bounded": 1.0, "unbounded": 1.0}, "source": "search"} for _ in range(10)]
    long = {
        "compile_s": {"bounded": 2.0, "unbounded": 10.0},
        "latency_s": {"bounded": 0.9, "unbounded": 1.0},
        "source": "search",
    }
    values = {"dataset": "some", "programs": [*short, long, {**long, "source": "template"}]}
    result = SimpleNamespace(machine="CPU", values=values)
    table = scheduling(SimpleNamespace(of=lambda benchmark: [result]))
    assert "| CPU | `data/some` | 11 | 0.60x | 0.27x | 1 | 0.90x |" in table
    assert "| CPU | templates | 1 | 0.20x | 0.20x | 1 | 0.90x |" in table
    assert "python -m" in scheduling(SimpleNamespace(of=lambda benchmark: []))
