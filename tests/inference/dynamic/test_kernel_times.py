"""Measurement of dynamic kernels: its end by a budget or Ctrl-C, and real times."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tvm
from foretune.dataset.measure import Executor, ExecutorConfig, MeasureConfig, MeasureJob, MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from foretune.inference.dynamic.kernel_times import KernelTimes, kernel_times
from foretune.inference.run.config import TuneConfig
from foretune.inference.search.config import OneShotConfig
from foretune.signals import Interrupted
from rich.console import Console

from tests.compiler.templates.cpu.dynamic.kernels import TARGET, Network, product, symbol, tensor
from tests.support.cpus import require

MODULES = [tvm.IRModule({}), tvm.IRModule({})]


class Fake:
    """Executor with made-up outcomes, or with an interruption."""

    def __init__(self, *outcomes: MeasureOutcome | BaseException) -> None:
        self.outcomes, self.calls = outcomes, 0

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        self.calls += 1
        for one in self.outcomes:
            if isinstance(one, BaseException):
                raise one
        return cast(list[MeasureOutcome], list(self.outcomes[: len(jobs)]))


def times(fake: Fake, budget_s: float | None = None) -> KernelTimes:
    return KernelTimes(cast(Executor, fake), Console(quiet=True), budget_s)


def test_a_kernel_that_failed_has_no_time() -> None:
    measure = times(Fake(MeasureOutcome(run_secs=(2.0,)), MeasureOutcome(failure=FailureKind.RUN_ERROR)))
    assert measure(MODULES) == [2.0, None]
    assert str(measure) == "measured 1 kernel, 1 failed"


def test_nothing_is_measured_after_the_budget() -> None:
    fake = Fake()
    measure = times(fake, budget_s=0.0)
    assert measure(MODULES) == [None, None]
    assert fake.calls == 0
    assert str(measure) == "measured no kernels, 2 left to predictions after the end of budget_s"


def test_ctrl_c_leaves_the_rest_to_predictions() -> None:
    fake = Fake(KeyboardInterrupt())
    measure = times(fake)
    assert [measure(MODULES), measure(MODULES)] == [[None, None]] * 2
    assert fake.calls == 1
    assert str(measure) == "measured no kernels, 4 left to predictions after the interruption"


def test_other_signals_end_the_command() -> None:
    with pytest.raises(Interrupted):
        times(Fake(Interrupted(signal.SIGTERM)))(MODULES)


def config(folder: Path, **changed: Any) -> TuneConfig:
    return TuneConfig(network="resnet18", output=folder, database=folder, **changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"search": OneShotConfig(measure=False, rounds=1, extra_rounds=0)},
        {"executor": ExecutorConfig(kind="dry_run")},
    ],
)
def test_settings_may_rule_measurements_out(changed: dict[str, Any], tmp_path: Path) -> None:
    with kernel_times(config(tmp_path, **changed), TARGET, Console(quiet=True)) as measure:
        assert measure is None


def test_kernels_are_measured_on_this_machine(tmp_path: Path) -> None:
    require(TARGET)
    data, weight = tensor("data", symbol("batch"), 8), tensor("weight", 8, 8)
    limits = MeasureConfig(build_timeout_s=300, run_timeout_s=300, repeats=1, groups=1)
    settings = config(tmp_path, measure=limits, workers=1)
    with kernel_times(settings, TARGET, Console(quiet=True)) as measure:
        network = Network(
            [data, weight, product(data, weight)],
            {"batch": (1, 2)},
            constants={1: np.zeros((8, 8), np.float32)},
            measure=measure,
        )
    (task,) = network.made.tasks
    measured = task.tables[0].measured
    assert {one.size for one in measured} == {1, 2}
    assert all(one.seconds > 0 and one.cycles > 0 for one in measured)
    assert str(measure) == f"measured {len(measured)} kernels"
    (table,) = json.loads(json.dumps(task.as_json()))["tables"]
    assert [one["size"] for one in table["measured"]] == [one.size for one in measured]
