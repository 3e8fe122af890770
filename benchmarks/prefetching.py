"""Templates with and without prefetches of their weights, on layers of BERT and ResNet.

    python -m benchmarks.prefetching

A network's weights are not in a core's caches when their layer begins. The runs of a layer therefore
alternate between copies of its weights, enough of them that the last cache does not keep them near a core.
The same layer with resident weights is timed for comparison. Runs with and without prefetches take turns. The
benchmark needs a minute for each data type.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.codegen.prefetching import PREFETCHED, with_prefetches
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.templates.cpu.template import Template
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from tvm.target import Target
from tvm.tirx import For

from .common import argument_parser, start, this_machine, write_result
from .templates.shapes import Convolution, Linear, flops_of, values_of

LAYERS = (
    *(Linear(128, 768, 768), Linear(128, 3072, 768), Linear(128, 768, 3072)),
    *(Linear(16, 768, 768), Linear(197, 3072, 768), Linear(1, 4096, 9216)),
    *(Convolution(56, 64, 64, 3), Convolution(28, 128, 128, 3), Convolution(14, 256, 256, 3)),
    *(Convolution(7, 512, 512, 3), Convolution(14, 1024, 256, 1), Convolution(7, 2048, 512, 1)),
)
"""Products of BERT-base at sequences of 128 and 16, of ViT-Base, and of a classifier of AlexNet; layers of
ResNet-18 and ResNet-50."""

FAR_BYTES = 150e6
"""Bytes of all copies of the weights."""

SECONDS = 0.4
"""Seconds of timing for each contestant."""


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--target", default="llvm", help="target (%(default)s)")
    parser.add_argument("--types", nargs="+", default=("float32", "bfloat16"), help="(%(default)s)")
    arguments = parser.parse_args()
    begun, target = start(), parse_target(arguments.target)
    rows = []
    for dtype in arguments.types:
        for layer in LAYERS:
            if (row := measured(layer.task(dtype), target)) is not None:
                rows.append({"shape": layer.name, "dtype": dtype, **row})
                print(describe(rows[-1]), flush=True)
    hardware = this_machine(arguments.target)
    write_result("prefetching", {"shapes": rows}, begun, hardware, results=arguments.out)


def measured(module: tvm.IRModule, target: Target) -> dict[str, Any] | None:
    """GFLOP/s of the most promising template that streams its weights, or None without such a template.

    `prefetched` tells whether its loops get prefetches: many passes over a panel, or one, get none.
    """
    found = streaming(module, target)
    if found is None:
        return None
    template, marked = found
    program, buffers = entries(marked, checked=False)
    runs = {"with": program, "without": unmarked(program)}
    compiled = {name: compile_module(mod, target)[TIMED] for name, mod in runs.items()}
    values = [values_of(*buffer) for buffer in buffers[TIMED]]
    near = [tvm.runtime.tensor(value) for value in values]
    copies = max(2, int(FAR_BYTES // values[1].nbytes))
    far = [[near[0], tvm.runtime.tensor(values[1]), *near[2:]] for _ in range(copies)]
    seconds = timed(compiled, {"far": far, "near": [near]})
    flops = flops_of(module)
    return {
        "instruction": template.instruction.name,
        "rows": template.rows * template.row_tiles,
        "vectors": template.vectors,
        "prefetched": not with_prefetches(program["main"]).same_as(program["main"]),
        "gflops": {
            where: {name: flops / one / 1e9 for name, one in by_name.items()}
            for where, by_name in seconds.items()
        },
    }


def streaming(module: tvm.IRModule, target: Target) -> tuple[Template, tvm.IRModule] | None:
    """The most promising template with a marked loop, and its program."""
    context = make_tune_context(module, target, seed=0)
    for template, program in template_programs(module, target, None):
        candidate = replay(context, trace_to_json(program.trace))
        if candidate is not None and isinstance(template, Template) and marks(candidate.sch.mod):
            return template, candidate.sch.mod
    return None


def marks(module: tvm.IRModule) -> list[For]:
    """Marked loops of a module's `main`."""
    found: list[For] = []
    tvm_ffi.structural_walk(module["main"].body, (For, found.append))
    return [loop for loop in found if PREFETCHED in loop.annotations]


def unmarked(module: tvm.IRModule) -> tvm.IRModule:
    """A module without marks."""

    def plain(loop: For) -> For:
        if PREFETCHED not in loop.annotations:
            return loop
        return For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body)

    functions = dict(module.functions_items())
    (main,) = (name for name in functions if name.name_hint == "main")
    body = tvm_ffi.structural_map(functions[main].body, (For, plain))
    return tvm.IRModule({**functions, main: functions[main].with_body(body)}, attrs=module.attrs)


def timed(
    runs: Mapping[str, Any], arguments: Mapping[str, Sequence[Sequence[Any]]]
) -> dict[str, dict[str, float]]:
    """Median seconds by kind of arguments and contestant, in turns of one pass over the arguments."""
    found: dict[str, dict[str, float]] = {}
    for where, every in arguments.items():
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        until = time.perf_counter() + SECONDS * len(runs)
        while time.perf_counter() < until or len(seconds["with"]) < 3 * len(every):
            for name, run in runs.items():
                run(*every[-1])  # the code and all arguments except the weights
                for each in every:
                    begun = time.perf_counter()
                    run(*each)
                    seconds[name].append(time.perf_counter() - begun)
        found[where] = {name: statistics.median(each) for name, each in seconds.items()}
    return found


def describe(row: Mapping[str, Any]) -> str:
    """One line about a layer."""
    parts = [
        f"{where} {by_name['without']:.0f} to {by_name['with']:.0f} GFLOP/s"
        for where, by_name in row["gflops"].items()
    ]
    return f"{row['shape']} {row['dtype']} {row['rows']}x{row['vectors']}: {', '.join(parts)}"


if __name__ == "__main__":
    main()
