"""Light-weight profiler of GPU templates (Bolt section 3.2.2), with a GPU and without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from .compilation import Compiled, compiled
from .problem import Problem
from .tiling import Gpu, Tiling, ranked

ALIKE = 0.5
"""Share of the profiled tilings that may have one block and one number of parts."""

Compile = Callable[[Problem, Tiling, Gpu], Compiled]
Measure = Callable[[Problem, Compiled], float]
"""Seconds of one run of a template on a GPU."""


@dataclass(frozen=True)
class Profiled:
    """A template that compiled well."""

    compiled: Compiled
    latency_s: float | None = None
    """As it was measured; None without a GPU."""


@dataclass(frozen=True)
class Profile:
    """Templates of a product, the best first."""

    templates: list[Profiled]
    rejected: Counter[str] = field(default_factory=Counter)
    """Number of templates that compilation has rejected, by reason."""


def profile(
    problem: Problem,
    gpu: Gpu,
    count: int = 8,
    *,
    compile_: Compile = compiled,
    measure: Measure | None = None,
) -> Profile:
    """Profiles the `count` most promising tilings of a problem that compile without spills.

    At most `ALIKE` of them share their block and the parts of their sums, so that a wrong guess of the closed
    form about these is seen. Without `measure`, their order follows the closed form, which is no latency.
    Raises GpuTemplateError.
    """
    templates: list[Profiled] = []
    rejected: Counter[str] = Counter()
    alike: Counter[tuple[int, int, int]] = Counter()
    for tiling in ranked(problem, gpu):
        if len(templates) == count:
            break
        block = tiling.block_m, tiling.block_n, tiling.parts
        if alike[block] >= max(ALIKE * count, 1):
            continue
        found = compile_(problem, tiling, gpu)
        if reason := found.rejected_by(gpu):
            rejected[reason] += 1
        else:
            templates.append(Profiled(found))
            alike[block] += 1
    if measure is not None:
        measured = [replace(one, latency_s=measure(problem, one.compiled)) for one in templates]
        templates = sorted(measured, key=lambda one: one.latency_s or 0.0)
    return Profile(templates, rejected)
