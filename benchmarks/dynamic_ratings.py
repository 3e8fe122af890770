"""Ratings of kernels for dynamic shapes by the closed form and the pretrained model, compared with latencies.

The model reads traces of schedules, and these kernels have none. It rates the template with the same
register tile and loop order instead, for the next number of rows that the tile divides. A score is a share
of the speed of the task's best program, so the rating is rows / score. At a size with a remainder, the
closed form's ratio of both sizes corrects it. Only tiles that divide the columns take part.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.instruction_sets import registers_of
from foretune.compiler.operators import to_task
from foretune.compiler.operators.dense import Dense
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.contraction import Contraction, read_contraction
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

from .common import argument_parser, geometric_mean, read_json, start, this_machine, write_result

PRODUCTS = ((384, 1536), (1536, 384), (768, 768), (512, 128))
"""Depth and columns."""

WHOLE, REMAINDERS = (4, 12, 60, 120, 480), (7, 23, 83, 131, 509)
"""Sizes that many tiles divide, and sizes that no tile divides."""

CLOSED_FORM, MODEL = RATERS = ("closed_form", "model")
"""Ratings of a kernel; lower is better."""

EARLIER = "earlier_closed_form"
"""Rating by the closed form of an earlier result, in a result that rates the same kernels again."""


def candidates(size: ProductSize, machine: Machine) -> list[KernelParameters]:
    """Kernels whose tile divides the columns, and the rows too if these are one of WHOLE."""
    width = panel_widths(size.columns, machine.lanes)[0]
    return [
        one
        for one in members(width, min(MOST_ROWS, size.rows), size.columns // width, machine)
        if size.columns % one.columns == 0 and (size.rows not in WHOLE or size.rows % one.rows == 0)
    ]


class ModelRater:
    """Ratings of kernels by the pretrained model, from templates of fixed extents."""

    def __init__(self, model: PretrainedCostModel, target: Target, machine: Machine) -> None:
        self._model, self._target, self._machine = model, target, machine
        instructions = target_instructions(target, "float32", "float32", "float32")
        self._instruction = next(one for one in instructions if one.lanes == machine.lanes)

    def __call__(self, member: KernelParameters, size: ProductSize) -> float | None:
        """Rating of a kernel; None without such a template."""
        whole = replace(size, rows=math.ceil(size.rows / member.rows) * member.rows)
        mod, contraction = _dense(whole.rows, size.depth, size.columns)
        template = Template(self._instruction, (member.rows,), member.panels, 4, member.order)
        context = make_tune_context(mod, self._target, seed=0)
        try:
            program = scheduled(mod, contraction, template, self._target)
        except ScheduleError:
            return None
        candidate = replay(context, trace_to_json(program.trace))
        if candidate is None:
            return None
        score = float(self._model.predict(context, [candidate])[0])
        remainder = cycles(member, size, self._machine) / cycles(member, whole, self._machine)
        return remainder * whole.rows / score


@cache
def _dense(rows: int, depth: int, columns: int) -> tuple[tvm.IRModule, Contraction]:
    mod = to_task(Dense(rows=rows, in_features=depth, out_features=columns)).mod
    contraction = read_contraction(mod)
    assert contraction is not None
    return mod, contraction


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


def chosen(ratings: Mapping[KernelParameters, Mapping[str, float]], most: int) -> list[KernelParameters]:
    """Kernels to measure: the first ones of each rater, and others that are evenly spread by the first."""
    found: dict[KernelParameters, None] = {}
    for rater in RATERS:
        ranked = sorted(ratings, key=lambda one: ratings[one][rater])
        found |= dict.fromkeys(ranked[: most // 4])
    rest = [one for one in sorted(ratings, key=lambda one: ratings[one][CLOSED_FORM]) if one not in found]
    step = max(1, math.ceil(len(rest) / max(1, most - len(found))))
    return [*found, *rest[::step]]


def rated(
    size: ProductSize, machine: Machine, model: ModelRater, pool: WorkerPool, most: int, turns: int
) -> list[dict[str, Any]]:
    """Kernels of a product at one size: each rater's rating, and seconds, null for a failure."""
    ratings: dict[KernelParameters, dict[str, float]] = {}
    for one in candidates(size, machine):
        if (of_model := model(one, size)) is not None:
            ratings[one] = {CLOSED_FORM: cycles(one, size, machine), MODEL: of_model}
    kernels = chosen(ratings, most)
    jobs = [
        MeasureJob(tvm.ir.save_json(one), keep_built=True)
        for one in modules(size.rows, size.depth, size.columns, kernels)
    ]
    outcomes = [[one.latency_s for one in pool.measure(jobs)] for _ in range(turns)]
    seconds = map(min, zip(*outcomes, strict=True))
    return [
        {
            "kernel": kernel_name(one),
            **ratings[one],
            "latency_s": found if math.isfinite(found) else None,
        }
        for one, found in zip(kernels, seconds, strict=True)
    ]


def kernel_name(one: KernelParameters) -> str:
    """Register tile and order of a kernel."""
    return f"{one.rows}x{one.columns} {one.order}"


def rated_again(tasks: Mapping[str, Sequence[Mapping[str, Any]]], machine: Machine) -> dict[str, Any]:
    """Kernels of an earlier result with ratings by the present closed form, too."""
    found = {}
    for name, rows in tasks.items():
        height, depth, columns = map(int, name.split("x"))
        size = ProductSize(height, columns, depth)
        of_name = {kernel_name(one): cycles(one, size, machine) for one in candidates(size, machine)}
        found[name] = [
            {**row, EARLIER: row[CLOSED_FORM], CLOSED_FORM: of_name[row["kernel"]]} for row in rows
        ]
    return found


def summaries(tasks: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Result of the benchmark."""
    by_size = {"summary": summary(tasks, WHOLE), "remainders": summary(tasks, REMAINDERS)}
    return {**{name: found for name, found in by_size.items() if found}, "tasks": tasks}


def summary(tasks: Mapping[str, Sequence[Mapping[str, Any]]], sizes: Sequence[int]) -> dict[str, Any]:
    """For each rater, over all products at these sizes: mean rank correlation, and speed of its first kernel.

    The speed is the shortest latency over its own, as a geometric mean and at the worst size.
    """
    of_size = [rows for name, rows in tasks.items() if int(name.partition("x")[0]) in sizes]
    ran = [[row for row in rows if row["latency_s"] and row[MODEL] is not None] for rows in of_size]
    compared = [rows for rows in ran if len(rows) > 2]
    found: dict[str, Any] = {}
    for rater in [one for one in (*RATERS, EARLIER) if compared and one in compared[0][0]]:
        correlations, shares = [], []
        for rows in compared:
            seconds = [row["latency_s"] for row in rows]
            correlations.append(float(spearmanr([row[rater] for row in rows], seconds).statistic))
            shares.append(min(seconds) / min(rows, key=lambda row: row[rater])["latency_s"])
        found[rater] = {
            "sizes": len(shares),
            "spearman": sum(correlations) / len(correlations),
            "speed_of_first": geometric_mean(shares),
            "least_speed_of_first": min(shares),
        }
    return found


def main() -> None:
    arguments = _arguments()
    begun, variant = start(), ""
    if arguments.of is None:
        hardware: Any = this_machine(arguments.target)
        tasks = measured(parse_target(arguments.target), hardware, arguments.most, arguments.turns)
    else:
        hardware, variant = read_json(arguments.of / "manifest.json")["hardware"], "again"
        bits = hardware["vector_bits"]
        machine = Machine(bits // 32, registers_of(bits), hardware["cores"])
        tasks = rated_again(read_json(arguments.of / "result.json")["tasks"], machine)
    result = summaries(tasks)
    print(*(f"{name}: {found}" for name, found in result.items() if name != "tasks"), sep="\n")
    notes, out = arguments.notes, arguments.out
    write_result("dynamic_ratings", result, begun, hardware, variant=variant, notes=notes, results=out)


def measured(target: Target, hardware: Hardware, most: int, turns: int) -> dict[str, list[dict[str, Any]]]:
    """Rated and measured kernels of each product at each size."""
    machine = Machine.of(target)
    loaded = PretrainedCostModel.load(fitting_checkpoint(AUTO, target), hardware)
    model = ModelRater(loaded, target, machine)
    tasks: dict[str, list[dict[str, Any]]] = {}
    with WorkerPool(target, MeasureConfig(), workers=1) as pool:
        for depth, columns in PRODUCTS:
            for rows in (*WHOLE, *REMAINDERS):
                name = f"{rows}x{depth}x{columns}"
                tasks[name] = rated(ProductSize(rows, columns, depth), machine, model, pool, most, turns)
                print(f"{name}: {len(tasks[name])} kernels", flush=True)
    return tasks


def _arguments() -> argparse.Namespace:
    parser = argument_parser(__name__)
    parser.add_argument("--target", default="llvm", help="target (%(default)s)")
    parser.add_argument("--most", type=int, default=16, help="kernels of each size (%(default)s)")
    parser.add_argument(
        "--turns", type=int, default=3, help="measurements of each kernel, in turns (%(default)s)"
    )
    parser.add_argument(
        "--of", type=Path, help="folder of an earlier result, whose kernels are rated again and not measured"
    )
    parser.add_argument("--notes", default="", help="a sentence about the machine, for the manifest")
    return parser.parse_args()


if __name__ == "__main__":
    main()
