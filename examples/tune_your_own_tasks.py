"""Tune a task of your own.

    python examples/tune_your_own_tasks.py [work_dir]

The task is a matrix product with a bias and a ReLU, written in TVM's tensor expressions. Foretune searches it
with the shipped checkpoints, measures the proposed programs on this CPU, and returns a database that stock
TVM compiles from.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tvm
from foretune.inference import OneShotConfig, tune_tasks
from tvm import te, topi


def layer(rows: int = 128, inner: int = 256, columns: int = 256) -> tvm.IRModule:
    """Returns relu(data @ weight + bias) as a module with one function `main`."""
    data = te.placeholder((rows, inner), name="data")
    weight = te.placeholder((inner, columns), name="weight")
    bias = te.placeholder((columns,), name="bias")
    output = topi.nn.relu(topi.add(topi.matmul(data, weight), bias))
    function = te.create_prim_func([data, weight, bias, output])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def main(work_dir: Path) -> None:
    """Tunes the layer, prints the results, and compiles the layer from the database."""
    module = layer()
    # By default, a search has up to six rounds and measures up to 48 programs.
    search = OneShotConfig(rounds=2, top_k=16)
    database, (result,) = tune_tasks([module], "llvm", work_dir, search=search)
    assert result.untuned_latency_s is not None and result.tuned_latency_s is not None
    print(f"measured {result.candidates_measured} of {result.candidates_scored} scored programs")
    print(f"untuned {result.untuned_latency_s * 1e3:.3f} ms, tuned {result.tuned_latency_s * 1e3:.3f} ms")

    target = tvm.target.Target({"kind": "llvm"})
    record = database.query_tuning_record(module, target, "main")
    schedule = tvm.s_tir.Schedule(module)
    record.trace.apply_to_schedule(schedule, remove_postproc=False)
    tvm.compile(schedule.mod, target)
    print(f"compiled the fastest program of {work_dir}")


if __name__ == "__main__":  # the search starts processes
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/tuning-database"))
