"""Entry of `python -m benchmarks.gpu_templates`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from foretune.compiler.instruction_sets import GPUS, Gpu
from foretune.compiler.targets import traits
from foretune.compiler.templates.gpu.attention import BackToBack
from foretune.compiler.templates.gpu.launch import compiler_latency_s, latency_s, library_latency_s
from foretune.compiler.templates.gpu.problem import Problem, Product
from foretune.compiler.templates.gpu.profiler import Profile, profile
from foretune.compiler.templates.gpu.tiling import cycles

from .. import gpu_templates as study
from ..common import RESULTS, argument_parser, start, write_result
from .every_tiling import every_tiling
from .network import kernels_of, tune_and_time
from .problems import DEPARTURES, PROBLEMS

Timer = Callable[..., float]

RIVALS: Mapping[str, Timer] = {"library_s": library_latency_s, "compiler_s": compiler_latency_s}
"""PyTorch's own timers, by their name in a result."""


def parts_of(problem: Problem) -> list[Problem]:
    """The products of a problem, each for a separate kernel."""
    if not isinstance(problem, BackToBack):
        return [problem]
    first = Product(m=problem.m, n=problem.middle, k=problem.k, activation=problem.activation)
    return [first, Product(m=problem.m, n=problem.n, k=problem.middle, activation=problem.activation)]


def row_of(
    name: str, problem: Problem, gpu: Gpu, count: int, measure: Timer | None, rivals: Mapping[str, Timer]
) -> dict[str, Any]:
    """The best template of a problem and of its parts, and the rivals; times are seconds or None."""
    parts = [profiled(part, gpu, count, measure) for part in parts_of(problem)]
    whole = profiled(problem, gpu, count, measure) if len(parts) > 1 else parts[0]
    return {
        "name": name,
        "departure": DEPARTURES.get(name, ""),
        "exhaustive": count == EVERY,
        "kernel": problem.kernel,
        **best(whole),
        "estimates": estimates(problem, gpu, whole) if measure else None,
        "apart_s": sum(best(part)["latency_s"] for part in parts) if measure else None,
        **{rival: timer(problem) for rival, timer in rivals.items()},
    }


EVERY = 0
"""Number of templates that stands for all tilings within the rules."""


def profiled(problem: Problem, gpu: Gpu, count: int, measure: Timer | None) -> Profile:
    """Like `profile`, but compiles all tilings on all cores first."""
    if count == EVERY:
        tilings, compile_ = every_tiling(problem, gpu)
        return profile(problem, gpu, 2 * tilings, compile_=compile_, measure=measure)
    return profile(problem, gpu, count, measure=measure)


def best(found: Profile) -> dict[str, Any]:
    """The first template of a profile, and the rejected ones."""
    one = found.templates[0]
    return {
        "tiling": asdict(one.compiled.tiling),
        "registers": one.compiled.registers,
        "shared_bytes": one.compiled.shared_bytes,
        "latency_s": one.latency_s,
        "rejected": dict(found.rejected),
    }


def estimates(problem: Problem, gpu: Gpu, found: Profile) -> list[tuple[float, float | None]]:
    """Cycles by the closed form and measured seconds of each template, sorted by cycles."""
    pairs = [(cycles(problem, one.compiled.tiling, gpu), one.latency_s) for one in found.templates]
    return sorted(pairs, key=lambda pair: pair[0])


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(study)
    add = parser.add_argument
    add("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    add("--count", type=int, default=8, help="templates of each that are timed (%(default)s)")
    add(
        "--exhaustive",
        nargs="*",
        choices=PROBLEMS,
        default=["square 1024", "one text 128x768x3072", "one text attention"],
        metavar="PROBLEM",
        help="time all tilings of these, to compare with the closed form's choice (%(default)s)",
    )
    add(
        "--network",
        default="bert_base",
        help="network in bfloat16 that is tuned with the templates and compared with PyTorch, after the "
        "problems; none leaves it out (%(default)s)",
    )
    add("--seconds", type=float, default=240.0, help="budget of the network's tuning (%(default)s)")
    add(
        "--compile-only",
        action="store_true",
        help="print what the profiler keeps; nothing is timed or written",
    )
    add("--capability", type=int, choices=GPUS, default=80, help="with --compile-only (%(default)s)")
    add("--out", type=Path, default=RESULTS, help="(%(default)s)")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, rows = start(), []
    measure, rivals = None, {}
    gpu, hardware = GPUS[arguments.capability], None
    if not arguments.compile_only:
        from foretune.compiler.tvm_compat import parse_target
        from foretune.dataset.hardware.cuda import probe_cuda

        hardware = probe_cuda()
        found = traits(parse_target("cuda")).gpu
        if found is None:
            sys.exit(f"error: {hardware.name} has no templates; use a GPU from sm_{min(GPUS)} on")
        gpu, measure, rivals = found, latency_s, RIVALS
    for name in arguments.problems:
        count = EVERY if measure and name in arguments.exhaustive else arguments.count
        row = row_of(name, PROBLEMS[name], gpu, count, measure, rivals)
        rows.append(row)
        print(row, flush=True)
    if hardware is not None:
        result = {"count": arguments.count, "capability": gpu.capability, "problems": rows}
        print(f"wrote {write_result('gpu_templates', result, begun, hardware, results=arguments.out)}")
    if arguments.network == "none":
        return
    if hardware is None:
        for line in kernels_of(arguments.network, gpu):
            print(line, flush=True)
    else:
        tune_and_time(arguments.network, arguments.seconds, arguments.out)


if __name__ == "__main__":
    main()
