"""Ratings of kernels for dynamic shapes by the closed form and the pretrained model, compared with latencies.

The model reads traces of schedules, and these kernels have none. It rates the template with the same register
tile and loop order instead, so only tiles that divide rows and columns take part.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from foretune.compiler.operators import to_task
from foretune.compiler.operators.dense import Dense
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.measured_kernels import with_sizes
from foretune.compiler.templates.cpu.dynamic.panels import packed_shape
from foretune.compiler.templates.cpu.dynamic.prediction import (
    MOST_ROWS,
    Machine,
    ProductSize,
    cycles,
    members,
    panel_widths,
)
from foretune.compiler.templates.cpu.dynamic.product_family import parameters
from foretune.compiler.templates.cpu.dynamic.product_kernel import product_kernel
from foretune.compiler.templates.cpu.dynamic.symbolic_product import read_symbolic_product
from foretune.compiler.templates.cpu.programs import scheduled
from foretune.compiler.templates.cpu.template import Template
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.inference.search.checkpoint_fit import fitting_checkpoint
from foretune.inference.search.cost_model import PretrainedCostModel
from foretune.models.checkpoints.shipped import AUTO
from scipy.stats import spearmanr
from tvm import te, tirx
from tvm.s_tir.schedule import ScheduleError
from tvm.target import Target

from .common import argument_parser, geometric_mean, start, this_machine, write_result

PRODUCTS = ((384, 1536), (1536, 384), (768, 768), (512, 128))
"""Depth and columns."""

ROWS = (4, 12, 60, 120, 480)
"""Sizes, which many tiles divide."""

CLOSED_FORM, MODEL = RATERS = ("closed_form", "model")
"""Ratings of a kernel; lower is better."""


def kernels(
    rows: int, depth: int, columns: int, machine: Machine, most: int
) -> dict[KernelParameters, float]:
    """Kernels whose tile divides rows and columns, with cycles.

    Half of them are the first ones by cycles, the others are evenly spread over the rest.
    """
    width = panel_widths(columns, machine.lanes)[0]
    size = ProductSize(rows, columns, depth)
    found = {
        one: cycles(one, size, machine)
        for one in members(width, min(MOST_ROWS, rows), columns // width, machine)
        if rows % one.rows == 0 and columns % one.columns == 0
    }
    ranked = sorted(found, key=found.__getitem__)
    first, rest = ranked[: most // 2], ranked[most // 2 :]
    step = max(1, math.ceil(len(rest) / (most - most // 2)))
    return {one: found[one] for one in [*first, *rest[::step]]}


def modules(rows: int, depth: int, columns: int, chosen: Sequence[KernelParameters]) -> list[tvm.IRModule]:
    """The kernels as modules of fixed extents."""
    var = tirx.Var("rows", "int64")
    data = te.placeholder([var, tirx.const(depth, "int64")], name="data")
    weight = te.placeholder([tirx.const(depth, "int64"), tirx.const(columns, "int64")], name="weight")
    k = te.reduce_axis((0, weight.shape[0]), "k")
    output = te.compute(
        [var, weight.shape[1]], lambda i, j: te.sum(data[i, k] * weight[k, j], axis=k), name="matmul"
    )
    func = te.create_prim_func([data, weight, output], index_dtype_override="int64")
    task = read_symbolic_product(func, frozenset({1}))
    assert task is not None
    packed = tirx.decl_buffer(packed_shape(task, chosen[0].width), "float32", "packed")
    (symbol,) = task.symbols
    return [
        with_sizes(parameters(task, packed), product_kernel(task, one, packed), {symbol: rows})
        for one in chosen
    ]


def model_ratings(
    rows: int,
    depth: int,
    columns: int,
    chosen: Sequence[KernelParameters],
    model: PretrainedCostModel,
    target: Target,
) -> list[float | None]:
    """The model's rating of the template with the tile of each kernel; None without such a template."""
    task = to_task(Dense(rows=rows, in_features=depth, out_features=columns))
    contraction = read_contraction(task.mod)
    assert contraction is not None
    lanes = chosen[0].width
    fitting = [one for one in target_instructions(target, *contraction.types) if one.lanes == lanes]
    context = make_tune_context(task.mod, target, seed=0, name=task.name)
    found: list[float | None] = []
    for one in chosen:
        candidate = None
        if fitting:
            template = Template(fitting[0], (one.rows,), one.panels, 4, one.order)
            try:
                program = scheduled(task.mod, contraction, template, target)
                candidate = replay(context, trace_to_json(program.trace))
            except ScheduleError:
                candidate = None
        found.append(None if candidate is None else -float(model.predict(context, [candidate])[0]))
    return found


def rated(
    rows: int,
    product: tuple[int, int],
    target: Target,
    hardware: Hardware,
    model: PretrainedCostModel,
    most: int,
) -> list[dict[str, Any]]:
    """Kernels of a product at one size: each rater's rating, and seconds, null for a failure."""
    depth, columns = product
    chosen = kernels(rows, depth, columns, Machine.of(target), most)
    ratings = model_ratings(rows, depth, columns, list(chosen), model, target)
    with WorkerPool(target, MeasureConfig(), workers=1) as pool:
        jobs = [MeasureJob(tvm.ir.save_json(one)) for one in modules(rows, depth, columns, list(chosen))]
        outcomes = pool.measure(jobs)
    return [
        {
            "kernel": f"{one.rows}x{one.columns} {one.order}",
            CLOSED_FORM: of_cycles,
            MODEL: rating,
            "latency_s": outcome.latency_s if math.isfinite(outcome.latency_s) else None,
        }
        for (one, of_cycles), rating, outcome in zip(chosen.items(), ratings, outcomes, strict=True)
    ]


def summary(tasks: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """For each rater, over all products and sizes: mean rank correlation, and speed of its first kernel."""
    found: dict[str, Any] = {}
    for rater in RATERS:
        correlations, shares = [], []
        for rows in tasks.values():
            ran = [row for row in rows if row["latency_s"] and row[MODEL] is not None]
            if len(ran) < 3:
                continue
            seconds = [row["latency_s"] for row in ran]
            correlations.append(float(spearmanr([row[rater] for row in ran], seconds).statistic))
            shares.append(min(seconds) / min(ran, key=lambda row: row[rater])["latency_s"])
        found[rater] = {
            "sizes": len(shares),
            "spearman": sum(correlations) / len(correlations),
            "speed_of_first": geometric_mean(shares),
            "least_speed_of_first": min(shares),
        }
    return found


def main() -> None:
    arguments = _arguments()
    begun, target = start(), parse_target(arguments.target)
    machine = this_machine(arguments.target)
    model = PretrainedCostModel.load(fitting_checkpoint(AUTO, target), machine)
    tasks: dict[str, list[dict[str, Any]]] = {}
    for depth, columns in PRODUCTS:
        for rows in ROWS:
            name = f"{rows}x{depth}x{columns}"
            tasks[name] = rated(rows, (depth, columns), target, machine, model, arguments.most)
            print(f"{name}: {len(tasks[name])} kernels", flush=True)
    result = {"summary": summary(tasks), "tasks": tasks}
    print(result["summary"])
    write_result("dynamic_ratings", result, begun, machine, notes=arguments.notes, results=arguments.out)


def _arguments() -> argparse.Namespace:
    parser = argument_parser(__name__)
    parser.add_argument("--target", default="llvm", help="target (%(default)s)")
    parser.add_argument("--most", type=int, default=16, help="kernels of each size (%(default)s)")
    parser.add_argument("--notes", default="", help="a sentence about the machine, for the manifest")
    return parser.parse_args()


if __name__ == "__main__":
    main()
