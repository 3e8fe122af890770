"""Builder, runner and future of a stock tuning run whose programs never run: latencies are made up."""

from __future__ import annotations

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms


@derived_object
class Builder(ms.builder.PyBuilder):
    """Builds nothing."""

    def build(self, build_inputs):
        return [ms.builder.BuilderResult("/nowhere", None) for _ in build_inputs]


@derived_object
class EvenRunner(ms.runner.PyRunner):
    """Runs every program in the same time in seconds; `seen` counts the programs of each batch."""

    def __init__(self, run_secs):
        super().__init__()
        self.run_secs = run_secs
        self.seen = []

    def run(self, runner_inputs):
        self.seen.append(len(runner_inputs))
        return [Future(self.run_secs) for _ in runner_inputs]


@derived_object
class Future(ms.runner.PyRunnerFuture):
    """A run that is done: its seconds, or None for one that failed."""

    def __init__(self, run_secs):
        super().__init__()
        self.run_secs = run_secs

    def done(self):
        return True

    def result(self):
        if self.run_secs is None:
            return ms.runner.RunnerResult(None, "made to fail")
        return ms.runner.RunnerResult([self.run_secs], None)
