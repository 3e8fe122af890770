"""A small pool of measured programs: a dataset of a few made-up or replayable programs of two tasks."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import count as count_from

from foretune.compiler.replay import RejectedError, candidate_trace_json, instantiate
from foretune.compiler.tvm_compat import design_spaces, make_tune_context
from foretune.dataset.records.schema import FailureKind, Record
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from tvm.s_tir.schedule import Trace

from .checkpoints import HARDWARE, TARGET, TASK


def pooled_record(workload, trace, latency_s, hardware=HARDWARE):
    """Record of a program that took `latency_s`, inf for a failure, and 0.5 s to build."""
    failed = math.isinf(latency_s)
    return Record(
        workload_hash=workload,
        trace=trace,
        run_secs=() if failed else (latency_s,),
        failure=FailureKind.RUN_ERROR if failed else None,
        failure_message="made to fail" if failed else "",
        cut_short=False,
        sampler="test",
        round=0,
        seed=0,
        hardware_id=hardware.hardware_id,
        target='{"kind": "llvm"}',
        tvm_version="0.27.0",
        timestamp=0.0,
        build_s=0.5,
        run_s=0.25,
    )


def write_pool(folder, tasks, records, hardware=(HARDWARE,)):
    """A dataset of tasks and records in `folder`."""
    store = RecordStore(folder)
    with store.writing():
        for device in hardware:
            store.put_hardware(device)
        store.append_tasks([task_row(task) for task in tasks])
        store.append_records(records)
    return folder


def sampled_traces(task, count):
    """Traces of different programs of a task, drawn at random from its first sketch."""
    context = make_tune_context(task.mod, TARGET, seed=0, name=task.name)
    sketch = Trace(design_spaces(context, task.name)[0].trace.insts, {})  # every decision is open
    found = {}
    seeds = count_from(1)
    while len(found) < count:
        with suppress(RejectedError):
            found[candidate_trace_json(instantiate(context, sketch, next(seeds)))] = None
    return list(found)


def replayable_pool(folder, count=9):
    """Pool of real programs of `checkpoints.TASK`: latencies of 1, 2, ... ms, the last one failed."""
    traces = sampled_traces(TASK, count)
    latencies_s = [1e-3 * (rank + 1) for rank in range(len(traces) - 1)] + [math.inf]
    return write_pool(
        folder,
        [TASK],
        [pooled_record(TASK.workload_hash, *pair) for pair in zip(traces, latencies_s, strict=True)],
    )
