"""Measurement of a round of programs: by Foretune's workers, or by MetaSchedule's own builder and runner.

Both yield the repeats in seconds of the programs in their order, as many at once as are measured together;
none for a failure.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from foretune.compiler.replay import candidate_module_json
from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.inference import prepare_builder
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

Measure = Callable[[Sequence[ms.MeasureCandidate]], Iterator[list[tuple[float, ...]]]]

AT_ONCE = 16
"""Programs that Foretune's workers build side by side before they time them; a killed search loses them."""


@contextmanager
def by_foretune(target: Target) -> Iterator[Measure]:
    """Long-lived workers without linking; the latency is the shortest run, with cold caches."""
    with WorkerPool(target) as pool:

        def measure(candidates: Sequence[ms.MeasureCandidate]) -> Iterator[list[tuple[float, ...]]]:
            for first in range(0, len(candidates), AT_ONCE):
                jobs = [MeasureJob(candidate_module_json(one)) for one in candidates[first : first + AT_ONCE]]
                yield [() if one.failure else (one.latency_s,) for one in pool.measure(jobs)]

        yield measure


@contextmanager
def by_stock(target: Target) -> Iterator[Measure]:
    """MetaSchedule's LocalBuilder, prepared as in `benchmarks.networks.stock`, and LocalRunner."""
    builder = ms.builder.LocalBuilder(initializer=prepare_builder, timeout_sec=60.0)
    runner = ms.runner.LocalRunner()

    def measure(candidates: Sequence[ms.MeasureCandidate]) -> Iterator[list[tuple[float, ...]]]:
        built = builder.build([ms.builder.BuilderInput(one.sch.mod, target) for one in candidates])
        try:
            for candidate, one in zip(candidates, built, strict=True):
                yield [() if one.artifact_path is None else _run(runner, one.artifact_path, candidate)]
        finally:
            for one in built:
                if one.artifact_path is not None:
                    shutil.rmtree(Path(one.artifact_path).parent, ignore_errors=True)

    yield measure


def _run(runner: ms.Runner, artifact: str, candidate: ms.MeasureCandidate) -> tuple[float, ...]:
    (future,) = runner.run([ms.runner.RunnerInput(artifact, "cpu", candidate.args_info)])
    return tuple(float(second) for second in future.result().run_secs or ())


MEASURED_BY: Mapping[str, Callable[[Target], AbstractContextManager[Measure]]] = {
    "foretune": by_foretune,
    "stock": by_stock,
}
"""Kinds of measurement."""
