"""LLVM's instruction scheduler with and without its bound: compile time, and latency of the code.

    python -m benchmarks.fast_scheduling
    python -m benchmarks.fast_scheduling --dataset data/cpu --programs 300

Programs are drawn from a dataset, together with the most promising template for each of its tasks. Each
program is compiled both ways in turns, and run both ways in turns if the code differs. A program takes about
two seconds.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.codegen.fast_scheduling import OPTION, with_bounded_scheduling
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import make_tune_context, parse_target, target_to_json
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import stored_rows, stored_task
from rich.progress import track
from tvm.target import Target

from .common import (
    ROOT,
    argument_parser,
    in_turns,
    start,
    this_machine,
    warm_seconds,
    write_result,
)
from .templates.shapes import values_of

COMPILES, RUNS = 3, 9
"""Turns of compiling, and of running."""

TURN_S = 0.01
"""Seconds of calls in a turn of running."""


def main() -> None:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--dataset", type=Path, default=ROOT / "data/networks", help="(%(default)s)")
    add("--programs", type=int, default=300, help="(%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    arguments = parser.parse_args()
    begun, target = start(), parse_target("llvm")
    targets = {"unbounded": unbounded(target), "bounded": with_bounded_scheduling(target)}
    found = []
    drawn = list(drawn_programs(arguments.dataset, arguments.programs, arguments.seed, target))
    for source, task, trace in track(drawn, "comparing"):
        if (row := compared(task, trace, target, targets)) is not None:
            found.append({"task": task.name, "source": source, **row})
    result = {"dataset": arguments.dataset.name, "seed": arguments.seed, "programs": found}
    write_result("fast_scheduling", result, begun, this_machine(), results=arguments.out)


def unbounded(target: Target) -> Target:
    """The target with LLVM's own bound, named explicitly so that it is not replaced."""
    return Target({**json.loads(target_to_json(target)), "cl-opt": [f"{OPTION}:uint=1000"]})


def drawn_programs(dataset: Path, count: int, seed: int, target: Target) -> Iterator[tuple[str, Task, str]]:
    """Source, task and trace of randomly drawn valid records, and of the first template of each task."""
    rows = stored_rows(dataset)
    tasks = {row.workload_hash: stored_task(row) for row in rows}
    ran = [record for record in RecordStore(dataset).require().records() if record.run_secs]
    for record in random.Random(seed).sample(ran, min(count, len(ran))):
        yield "search", tasks[record.workload_hash], record.trace
    for task in tasks.values():
        for _, program in islice(template_programs(task.mod, target, None), 1):
            yield "template", task, trace_to_json(program.trace)


def compared(task: Task, trace: str, target: Target, targets: Mapping[str, Target]) -> dict[str, Any] | None:
    """CPU seconds to compile a program, and seconds of a run if its code differs, by target.

    None if the trace does not fit this machine's target.
    """
    candidate = replay(make_tune_context(task.mod, target, seed=0), trace)
    if candidate is None:
        return None
    program, buffers = entries(candidate.sch.mod, checked=False)
    compile_s: dict[str, list[float]] = {name: [] for name in targets}
    libraries: dict[str, Any] = {}
    codes: dict[str, str] = {}
    compile_module(program, target)  # reads what later ones find in caches
    for _, name in in_turns(list(targets), COMPILES):
        before = time.process_time()
        executable = compile_module(program, targets[name])
        libraries[name] = executable.jit()[TIMED]
        compile_s[name].append(time.process_time() - before)
        codes[name] = executable.mod.inspect_source("asm")
    row = {"compile_s": {name: min(each) for name, each in compile_s.items()}}
    if len(set(codes.values())) == 1:
        return row
    values = [tvm.runtime.tensor(values_of(*buffer)) for buffer in buffers[TIMED]]
    samples: dict[str, list[float]] = {name: [] for name in targets}
    for _, name in in_turns(list(targets), RUNS):
        samples[name].append(warm_seconds(partial(libraries[name], *values), TURN_S))
    return {**row, "latency_s": {name: statistics.median(each) for name, each in samples.items()}}


if __name__ == "__main__":
    main()
