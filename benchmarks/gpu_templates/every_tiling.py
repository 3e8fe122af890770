"""All tilings of a problem, compiled on all cores, for comparison with the closed form's choice."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context

from foretune.compiler.instruction_sets import Gpu
from foretune.compiler.templates.gpu.compilation import Compiled, compiled
from foretune.compiler.templates.gpu.problem import Problem
from foretune.compiler.templates.gpu.profiler import Compile
from foretune.compiler.templates.gpu.tiling import Tiling, ranked
from foretune.compiler.tvm_compat import available_cores


def every_tiling(problem: Problem, gpu: Gpu) -> tuple[int, Compile]:
    """Number of tilings, and a function that looks up a tiling's compilation result."""
    tilings = ranked(problem, gpu)
    with ProcessPoolExecutor(available_cores(), mp_context=get_context("spawn")) as pool:
        made = pool.map(compiled, repeat(problem), tilings, repeat(gpu), chunksize=4)
        found = dict(zip(tilings, made, strict=False))

    def look_up(_: Problem, tiling: Tiling, __: Gpu) -> Compiled:
        return found[tiling]

    return len(tilings), look_up
