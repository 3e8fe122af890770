"""Entry of `python -m benchmarks.gpu_templates`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from foretune.dataset.templates.gpu.launch import compiler_latency_s, latency_s, library_latency_s
from foretune.dataset.templates.gpu.problem import BackToBack, Problem, Product, Window
from foretune.dataset.templates.gpu.profiler import Profile, profile
from foretune.dataset.templates.gpu.tiling import GPUS, Gpu, cycles, gpu_of

from .. import gpu_templates as study
from ..common import RESULTS, argument_parser, start, write_result

_PAIRS = ((16384, 256, 64, 16), (32768, 576, 128, 64), (128320, 96, 32, 128))
"""Rows, depth, and widths of both products, as in Bolt's Table 1; 96 columns are 128 here, powers of two. Its
first row has products of width 1 and 4, which no tensor core computes."""

PROBLEMS: Mapping[str, Problem] = {
    "square 1024": Product(m=1024, n=1024, k=1024),
    "square 4096": Product(m=4096, n=4096, k=4096),
    "BERT 1280x768x768": Product(m=1280, n=768, k=768, activation="gelu"),
    "BERT 1280x3072x768": Product(m=1280, n=3072, k=768, activation="gelu"),
    "BERT 1280x768x3072": Product(m=1280, n=768, k=3072, activation="gelu"),
    **{
        f"conv {side} {channels}-{channels} 3x3": Window(
            **{"batch": 32, "height": side, "width": side, "channels": channels, "filters": channels},
            **{"kernel_h": 3, "kernel_w": 3, "padding": 1, "activation": "relu"},
        )
        for side, channels in ((56, 64), (28, 128), (14, 256), (7, 512))
    },
    **{
        f"pair {m}x{k}x{middle}x{n}": BackToBack(m=m, k=k, middle=middle, n=n, activation="relu")
        for m, k, middle, n in _PAIRS
    },
}
"""GEMMs of Figures 1 and 8 (batch 32 of 40 tokens), 3x3 convolutions of ResNet-50, and pairs of Table 1."""

Timer = Callable[..., float]

RIVALS: Mapping[str, Timer] = {"library_s": library_latency_s, "compiler_s": compiler_latency_s}
"""Timers of PyTorch's own, by their name in a result."""


def parts_of(problem: Problem) -> list[Problem]:
    """The products that a problem is made of, each for a kernel of its own."""
    if not isinstance(problem, BackToBack):
        return [problem]
    first = Product(m=problem.m, n=problem.middle, k=problem.k, activation=problem.activation)
    return [first, Product(m=problem.m, n=problem.n, k=problem.middle, activation=problem.activation)]


def row_of(
    name: str, problem: Problem, gpu: Gpu, count: int, measure: Timer | None, rivals: Mapping[str, Timer]
) -> dict[str, Any]:
    """The best template of a problem, those of its parts, and the rivals; times are seconds or None."""
    parts = [profile(part, gpu, count, measure=measure) for part in parts_of(problem)]
    whole = profile(problem, gpu, count, measure=measure) if len(parts) > 1 else parts[0]
    return {
        "name": name,
        "kernel": problem.kernel,
        **best(whole),
        "estimates": estimates(problem, gpu, whole) if measure else None,
        "apart_s": sum(best(part)["latency_s"] for part in parts) if measure else None,
        **{rival: timer(problem) for rival, timer in rivals.items()},
    }


def best(found: Profile) -> dict[str, Any]:
    """The first template of a profile, and what was rejected."""
    one = found.templates[0]
    return {
        "tiling": asdict(one.compiled.tiling),
        "registers": one.compiled.registers,
        "shared_bytes": one.compiled.shared_bytes,
        "latency_s": one.latency_s,
        "rejected": dict(found.rejected),
    }


def estimates(problem: Problem, gpu: Gpu, found: Profile) -> list[tuple[float, float | None]]:
    """Cycles of the closed form and measured seconds of each template, the least cycles first."""
    pairs = [(cycles(problem, one.compiled.tiling, gpu), one.latency_s) for one in found.templates]
    return sorted(pairs, key=lambda pair: pair[0])


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(study)
    add = parser.add_argument
    add("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    add("--count", type=int, default=8, help="templates of each that are timed (%(default)s)")
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
        from foretune.dataset.hardware.cuda import probe_cuda
        from foretune.dataset.tvm_compat import parse_target

        hardware = probe_cuda()
        found = gpu_of(parse_target("cuda"))
        if found is None:
            sys.exit(f"error: {hardware.name} has no templates; use a GPU from sm_{min(GPUS)} on")
        gpu, measure, rivals = found, latency_s, RIVALS
    for name in arguments.problems:
        row = row_of(name, PROBLEMS[name], gpu, arguments.count, measure, rivals)
        rows.append(row)
        print(row, flush=True)
    if hardware is not None:
        result = {"count": arguments.count, "capability": gpu.capability, "problems": rows}
        print(f"wrote {write_result('gpu_templates', result, begun, hardware, results=arguments.out)}")


if __name__ == "__main__":
    main()
