"""Hardware-native templates on a GPU against PyTorch's library calls (Bolt, Figures 1 and 8, Tables 1 and 2).

    python -m benchmarks.gpu_templates                   # on a machine with an NVIDIA GPU
    python -m benchmarks.gpu_templates --compile-only    # anywhere: kept and rejected templates

The problems are products and convolutions in float16, and the operators of BERT-base for one text in
bfloat16. The most promising templates of each are compiled, templates that spill are rejected, and the others
are timed. For the problems after `--exhaustive`, all templates are timed, which compares the closed form's
choice with the fastest. Two products back to back are timed in one kernel and in two. Then BERT-base is tuned
in bfloat16 with the templates, and compared with PyTorch (`benchmarks.rivals`). Without a GPU,
`--compile-only` goes through the same problems and the network: it lists the calls that templates compute,
and their resources. It needs Triton: pip install 'foretune[triton]'.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

from foretune.compiler.host.lifeline import process_pool, start_tied
from foretune.compiler.instruction_sets import GPUS, Gpu
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.alternatives.call_chains import call_chains
from foretune.compiler.targets import traits
from foretune.compiler.templates.gpu.attention import BackToBack
from foretune.compiler.templates.gpu.compilation import Compiled, compiled
from foretune.compiler.templates.gpu.launch import compiler_latency_s, latency_s, library_latency_s
from foretune.compiler.templates.gpu.matching import matched
from foretune.compiler.templates.gpu.problem import Problem, Product
from foretune.compiler.templates.gpu.profiler import Compile, Profile, profile
from foretune.compiler.templates.gpu.tiling import Tiling, cycles, ranked
from foretune.compiler.tvm_compat import available_cores, parse_target

from ..common import ROOT, argument_parser, start, write_result
from .problems import DEPARTURES, PROBLEMS

_TARGETS = {80: "nvidia/nvidia-a100", 90: "nvidia/nvidia-h100"}
NARROW = "bfloat16"


def kernels_of(name: str, gpu: Gpu) -> Iterator[str]:
    """One line for each problem of a network: its calls, and its most promising template, compiled.

    The cycles come from the closed form and are not measured.
    """
    target = parse_target(_TARGETS[gpu.capability])
    mod = to_relax(load_network(name), target, Lowering(dtype=NARROW))
    chains = call_chains(mod)
    left = {task.workload_hash: task for task in extract_tasks(mod, target, name)}
    weights = {workload: task.weight for workload, task in left.items()}
    for chain in chains:
        for workload in chain.replaces:
            weights[workload] -= len(chain.places)
        yield _line(chain.name, len(chain.places), chain.match.problem, gpu)
    for workload, task in left.items():
        match = matched(task.mod) if weights[workload] else None
        if match is not None:
            yield _line(task.name, weights[workload], match.problem, gpu)
        elif weights[workload]:
            yield f"{name}: {weights[workload]} x {task.name}: searched, as no template computes it"


def _line(name: str, calls: int, problem: Problem, gpu: Gpu) -> str:
    template = profile(problem, gpu, 1).templates[0].compiled
    kernels = ", ".join(
        f"{kernel.registers} registers and {kernel.shared_bytes} bytes of shared memory"
        for kernel in template.kernels
    )
    estimate = cycles(problem, template.tiling, gpu)
    title = problem.title(template.tiling)
    return f"{calls} x {name}: {title}; {kernels}; {estimate:.0f} cycles by the closed form"


def tune_and_time(name: str, seconds: float, out: Path) -> None:
    """Tunes a network in bfloat16 with templates, and compares it with PyTorch (`benchmarks.rivals`)."""
    words = ["--target", "cuda", "--networks", name, "--variant", f"cuda-{NARROW}", "--extend", "--keep"]
    settings = [f"budget_s={seconds:g}", f"lowering.dtype={NARROW}"]
    command = ["-m", "benchmarks.rivals", *words, "--out", str(out), "--", *settings]
    with start_tied(command, cwd=ROOT) as process:
        if status := process.wait():
            raise subprocess.CalledProcessError(status, command)


def every_tiling(problem: Problem, gpu: Gpu) -> tuple[int, Compile]:
    """Number of tilings, and a function that looks up a tiling's compilation result."""
    tilings = ranked(problem, gpu)
    with process_pool(available_cores()) as pool:
        made = pool.map(compiled, repeat(problem), tilings, repeat(gpu), chunksize=4)
        found = dict(zip(tilings, made, strict=False))

    def look_up(_: Problem, tiling: Tiling, __: Gpu) -> Compiled:
        return found[tiling]

    return len(tilings), look_up


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
    parser = argument_parser(__name__)
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
        write_result("gpu_templates", result, begun, hardware, results=arguments.out)
    if arguments.network == "none":
        return
    if hardware is None:
        for line in kernels_of(arguments.network, gpu):
            print(line, flush=True)
    else:
        tune_and_time(arguments.network, arguments.seconds, arguments.out)


if __name__ == "__main__":
    main()
