"""Ratings of templates by the closed form, the light profiler and the model, compared with latencies."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from foretune.compiler.networks import Lowering
from foretune.compiler.replay import candidate_module_json, replay, trace_to_json
from foretune.compiler.targets import target_instructions
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.choice import ranked
from foretune.compiler.templates.cpu.contraction import Contraction, read_contraction
from foretune.compiler.templates.cpu.programs import scheduled
from foretune.compiler.tvm_compat import make_tune_context, parse_target, target_cores
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.measure.worker.light_profiler import LightProfiler
from foretune.inference.search.checkpoint_fit import fitting_checkpoint
from foretune.inference.search.cost_model import PretrainedCostModel
from foretune.models.checkpoints.shipped import AUTO
from tvm.s_tir.schedule import ScheduleError
from tvm.target import Target

from .common import argument_parser, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .tasks import largest_first

NETWORKS = ("resnet18", "mobilenetv2", "bert_base")

CLOSED_FORM, PROFILE, MODEL = RATERS = ("closed_form", "profile", "model")
"""Ratings of a template; lower is better."""

MINUTES = 30.0
"""Minutes after which no further task begins, by default."""


def rated(task: Task, target: Target, hardware: Hardware, most: int) -> list[dict[str, Any]]:
    """Templates of a task with the latency in seconds of each, null for a failure, and each rater's rating.

    `most` limits the number of templates, which are evenly spread over the ranking by the closed form.
    """
    contraction = read_contraction(task.mod)
    assert contraction is not None
    instructions = target_instructions(target, *contraction.types)
    cores = target_cores(target)
    profile = LightProfiler(target, hardware).profile(instructions)
    by_cycles = ranked(contraction, instructions, hardware, cores)
    by_profile = dict(ranked(contraction, instructions, hardware, cores, profile)) if profile else {}
    step = max(1, math.ceil(len(by_cycles) / most))
    context = make_tune_context(task.mod, target, seed=0, name=task.name)
    rows, candidates = [], []
    for template, cycles in by_cycles[::step]:
        try:
            program = scheduled(task.mod, contraction, template, target)
        except ScheduleError:
            continue
        candidate = replay(context, trace_to_json(program.trace))
        if candidate is None:
            continue
        candidates.append(candidate)
        tile = f"{template.rows * template.row_tiles}x{template.vectors}"
        rows.append(
            {
                "template": f"{template.instruction.name} {tile} {template.order}",
                CLOSED_FORM: cycles,
                PROFILE: by_profile.get(template),
            }
        )
    model = PretrainedCostModel.load(fitting_checkpoint(AUTO, target), hardware)
    with WorkerPool(target, MeasureConfig(), workers=1) as pool:
        outcomes = pool.measure([MeasureJob(candidate_module_json(candidate)) for candidate in candidates])
    scores = model.predict(context, candidates)
    return [
        {
            **row,
            MODEL: -float(score),
            "latency_s": outcome.latency_s if math.isfinite(outcome.latency_s) else None,
        }
        for row, score, outcome in zip(rows, scores, outcomes, strict=True)
    ]


def tasks_of(network: str, dtype: str, target: Target, count: int) -> list[Task]:
    """The largest tasks of a network for which templates exist."""
    found = largest_first(network, target, Lowering(dtype=dtype))
    return [task for task in found if _fits(read_contraction(task.mod), target)][:count]


def _fits(contraction: Contraction | None, target: Target) -> bool:
    if contraction is None:
        return False
    instructions = target_instructions(target, *contraction.types)
    return bool(ranked(contraction, instructions, None, target_cores(target)))


def describe(name: str, rows: list[Mapping[str, Any]]) -> str:
    """One line about a task."""
    ran = [row for row in rows if row["latency_s"]]
    best_s = min((row["latency_s"] for row in ran), default=math.nan)
    first = {
        rater: min(ran, key=lambda row: row[rater])["latency_s"]
        for rater in RATERS
        if ran and all(row[rater] is not None for row in ran)
    }
    shares = ", ".join(f"{rater} {best_s / latency_s:.0%}" for rater, latency_s in first.items())
    return f"{name}: {len(ran)} templates, best {1e6 * best_s:.0f} us; speed of the first one by {shares}"


def main() -> None:
    arguments = _arguments()
    begun, target = start(), parse_target(arguments.target)
    machine = this_machine(arguments.target)
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "template_ratings", machine))
    found = {dtype: dict(tasks) for dtype, tasks in runs.earlier.get("tasks", {}).items()}
    for dtype in arguments.types:
        known = found.setdefault(dtype, {})
        for network in arguments.networks:
            for number, task in enumerate(tasks_of(network, dtype, target, arguments.tasks)):
                name = f"{network}-{number}"
                if name in known or not runs.in_time(f"{name}-{dtype}"):
                    continue
                rows = runs.kept(
                    f"{name}-{dtype}",
                    {"task": task.workload_hash, "most": arguments.most},
                    partial(rated, task, target, machine, arguments.most),
                )
                if rows:
                    known[name] = rows
                    print(describe(f"{name} {dtype}", rows), flush=True)
    runs.write("template_ratings", {"tasks": found}, begun, machine)


def _arguments() -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--target", default="llvm", help="target (%(default)s)")
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--types", nargs="+", default=["float32", "bfloat16"], help="data types (%(default)s)")
    add("--tasks", type=int, default=6, help="largest tasks of each network (%(default)s)")
    add("--most", type=int, default=32, help="templates of each task (%(default)s)")
    add_options(parser, "outputs/benchmarks/template_ratings", str(MINUTES))
    parser.set_defaults(overrides=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
