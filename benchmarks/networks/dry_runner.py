"""Runner for a rehearsal of MetaSchedule without a GPU: it invents latencies."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

DRY_STRATEGY = "replay-trace"
"""Search strategy of a rehearsal: random programs, because evolution takes minutes."""


@derived_object
class _Invented(ms.runner.PyRunnerFuture):
    """A latency that is available immediately."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def done(self) -> bool:
        """See RunnerFuture."""
        return True

    def result(self) -> ms.runner.RunnerResult:
        """See RunnerFuture."""
        return ms.runner.RunnerResult([self._seconds], None)


@derived_object
class DryRunner(ms.runner.PyRunner):
    """Programs take 1 to 2 ms, by their number. Nothing is run, and the figures have no meaning."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def run(self, runner_inputs: Sequence[ms.runner.RunnerInput]) -> list[ms.runner.RunnerFuture]:
        """See Runner."""
        first, self._count = self._count, self._count + len(runner_inputs)
        return [
            _Invented(1e-3 + 1e-3 * ((first + number) * 7 % 13) / 13) for number in range(len(runner_inputs))
        ]
