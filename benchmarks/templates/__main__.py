"""Templates on the shapes of BERT, ResNet and MobileNetV2, as shares of the cores' peak (Bolt, Figure 1).

    python -m benchmarks.templates --parts shapes
    python -m benchmarks.templates --parts contest --threads 1 2 --extend

The contest compares the templates with MetaSchedule's default rules and oneDNN. Contests are kept in
`outputs/benchmarks/templates` until the commit changes.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from foretune.compiler.targets import require_instructions
from foretune.compiler.templates.cpu.depthwise import DepthwiseTemplate
from foretune.compiler.templates.cpu.programs import AnyTemplate
from foretune.compiler.tvm_compat import parse_target, target_cores
from tvm.target import Target

from ..checkouts import commit_of
from ..common import ROOT, argument_parser, kept_run, start, this_machine, write_result
from ..kept_runs import earlier_result, notes_of
from .contest import Ring, scheduled
from .peak import peak_gflops
from .shapes import CONVOLUTIONS, PRODUCTS, TYPES, Convolution, Linear, flops_of, layers, warm_call

SHAPES, CONTEST = "shapes", "contest"


def arguments_of() -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--target", default="llvm", help="target (%(default)s)")
    add("--parts", nargs="+", default=[SHAPES, CONTEST], choices=[SHAPES, CONTEST], help="(both)")
    add("--templates", type=int, default=4, help="templates of a shape (%(default)s)")
    add("--types", nargs="+", default=list(TYPES), choices=TYPES, help="(all)")
    add("--threads", nargs="+", type=int, help="threads of a contest (one and all)")
    add("--trials", type=int, default=64, help="programs of a search by default rules (%(default)s)")
    add("--again", action="store_true", help="run anew what is kept")
    add("--keep", action="store_true", help="keep contests of earlier commits too")
    add("--extend", action="store_true", help="keep the parts of this machine's result that are not run")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/templates"), help="(%(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = arguments_of()
    begun, target = start(), parse_target(arguments.target)
    hardware = this_machine(arguments.target)
    earlier = earlier_result(arguments, "templates", hardware)
    result = {name: value for name, value in earlier.items() if name not in ("commit", "notes")}
    if SHAPES in arguments.parts:
        result |= _all_shapes(arguments, target)
    if CONTEST in arguments.parts:
        result |= {"trials": arguments.trials, "contests": _contests(arguments, target)}
    write_result("templates", result, begun, hardware, notes=notes_of(earlier), results=arguments.out)


def _contests(arguments: argparse.Namespace, target: Target) -> list[dict[str, Any]]:
    """A contest for each data type, layer and number of threads; the largest number searches programs."""
    threads = sorted(set(arguments.threads or {1, target_cores(target)}))
    cases = [(dtype, layer) for dtype in arguments.types for layer in (*PRODUCTS, *CONVOLUTIONS)]
    settings = {"commit": commit_of(ROOT), "threads": threads, "trials": arguments.trials}
    settings["templates"] = arguments.templates
    began, found = time.monotonic(), []
    with ExitStack() as stack:
        rings = [stack.enter_context(closing(Ring(target, count))) for count in threads]
        for done, (dtype, layer) in enumerate(cases, 1):
            made = partial(_contest, rings, layer, dtype, arguments.trials, arguments.templates)
            found += kept_run(
                arguments.runs_in / f"{dtype}-{re.sub('[^a-z0-9]+', '-', layer.name)}.json",
                settings,
                made,
                again=arguments.again,
                free=("commit",) if arguments.keep else (),
            )
            left = (time.monotonic() - began) / 60 / done * (len(cases) - done)
            for one in found[-len(threads) :]:
                print(f"[{done} of {len(cases)}, {left:.0f} min left] {describe(one)}", flush=True)
    return found


def _contest(
    rings: Sequence[Ring], layer: Linear | Convolution, dtype: str, trials: int, templates: int
) -> list[dict[str, Any]]:
    """Contests of one layer and data type, one for each ring; the last ring searches."""
    found = rings[-1].searched(layer, dtype, trials)
    return [
        {
            **{"threads": ring.threads, "dtype": dtype, "shape": layer.name},
            **ring.measured(layer, dtype, found, templates),
        }
        for ring in rings
    ]


def describe(contest: Mapping[str, Any]) -> str:
    """One line about a contest."""
    said = [
        f"{row['contestant']} " + (row["error"][:60] or f"{row['share_of_peak']:.0%}")
        for row in contest["rows"]
    ]
    return f"{contest['shape']} {contest['dtype']}, {contest['threads']} threads: {', '.join(said)}"


def _all_shapes(arguments: argparse.Namespace, target: Target) -> dict[str, Any]:
    """Peaks and the fastest templates of each shape on all cores."""
    peaks: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for dtype in arguments.types:
        # Depthwise convolutions of all types are multiply-adds of float32 or int32.
        for kinds in (TYPES[dtype], TYPES["float32"]):
            for instruction in require_instructions(target, *kinds):
                if instruction.name not in peaks:
                    peaks[instruction.name] = peak_gflops(instruction, target)
                    print(f"{instruction.name}: {peaks[instruction.name]:.0f} GFLOP/s", flush=True)
        for layer in layers():
            rows += _measured(layer.name, dtype, layer.task(dtype), target, arguments.templates, peaks)
    return {"peak_gflops": peaks, "shapes": rows}


def _measured(
    name: str, dtype: str, module: tvm.IRModule, target: Target, count: int, peaks: Mapping[str, float]
) -> list[dict[str, Any]]:
    """One row for each instruction that a template of the shape uses: the fastest of `count` templates."""
    found: dict[str, dict[str, Any]] = {}
    flops = flops_of(module)
    begun = time.perf_counter()
    for template, program in scheduled(module, target, count):
        seconds = _seconds(program, target)
        gflops = flops / seconds / 1e9
        row = {
            "shape": name,
            "dtype": dtype,
            "instruction": template.instruction.name,
            **_parameters(template),
            "latency_s": seconds,
            "gflops": gflops,
            "share_of_peak": gflops / peaks[template.instruction.name],
        }
        if seconds < found.get(template.instruction.name, {"latency_s": np.inf})["latency_s"]:
            found[template.instruction.name] = row
    for row in found.values():
        row["choice_s"] = time.perf_counter() - begun
        print(
            f"  {name} {dtype} {row['instruction']} {row['rows']}x{row['vectors']}: "
            f"{row['gflops']:.0f} GFLOP/s, {row['share_of_peak']:.0%}",
            flush=True,
        )
    return list(found.values())


def _parameters(template: AnyTemplate) -> dict[str, Any]:
    """Rows and vectors of the register tile, and its surroundings."""
    if isinstance(template, DepthwiseTemplate):
        return {"rows": prod(template.tile), "vectors": template.vectors, "block": template.block}
    return {
        "rows": template.rows * template.row_tiles,
        "vectors": template.vectors,
        "order": template.order,
    }


def _seconds(program: tvm.IRModule, target: Target) -> float:
    """Shortest of some runs with operands in the caches, as far as they fit."""
    run = warm_call(program, target)
    best, until = np.inf, time.perf_counter() + 0.03
    while time.perf_counter() < until:
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return float(best)


if __name__ == "__main__":
    main()
