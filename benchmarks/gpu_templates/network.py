"""Templates in a whole network: its kernels, without a GPU, and its speed, with one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from foretune.compiler.instruction_sets import Gpu
from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.networks.alternatives.gpu_chains import gpu_chains
from foretune.compiler.templates.gpu.matching import matched
from foretune.compiler.templates.gpu.problem import Problem
from foretune.compiler.templates.gpu.profiler import profile
from foretune.compiler.templates.gpu.tiling import cycles
from foretune.compiler.tvm_compat import parse_target

from ..common import ROOT

_TARGETS = {80: "nvidia/nvidia-a100", 90: "nvidia/nvidia-h100"}
NARROW = "bfloat16"


def kernels_of(name: str, gpu: Gpu) -> Iterator[str]:
    """One line for each problem of a network: its calls, and its most promising template, compiled.

    The cycles come from the closed form and are not measured.
    """
    target = parse_target(_TARGETS[gpu.capability])
    mod = to_relax(load_network(name), target, Lowering(dtype=NARROW))
    chains = gpu_chains(mod)
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
    command = [sys.executable, "-m", "benchmarks.rivals", *words, "--out", str(out), "--", *settings]
    subprocess.run(command, check=True, cwd=ROOT)
