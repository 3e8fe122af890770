"""Measurement of dynamic kernels: its end by a budget or Ctrl-C, and real times."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import load_network
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs
from foretune.compiler.networks.dynamic.lowering import scheduled, to_symbolic_relax
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.dataset.measure import Executor, ExecutorConfig, MeasureConfig, MeasureJob, MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from foretune.inference.database.folder import DEVICE_FILE
from foretune.inference.database.stored_kernel_times import KERNELS_FILE, StoredKernelTimes
from foretune.inference.database.tuning_database import folder_of
from foretune.inference.database.turns import TURN_FILE
from foretune.inference.dynamic import kernel_times as subject
from foretune.inference.dynamic.kernel_times import KernelTimes, kernel_times, kernel_turn
from foretune.inference.run.config import TuneConfig
from foretune.inference.search.config import OneShotConfig
from foretune.signals import Interrupted
from rich.console import Console
from support.locks import held_by_another_process
from support.paths import ROOT
from torch import nn
from tvm import te

from tests.compiler.templates.cpu.dynamic.kernels import TARGET, Network, product, symbol, tensor
from tests.support.cpus import cpu, require


def kernel(rows: int) -> tvm.IRModule:
    """A module that differs from those of other rows."""
    x = tensor("x", rows)
    return tvm.IRModule({"main": te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] + 1.0)])})


MODULES = [kernel(1), kernel(2)]


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def times(
    fake: Fake | None, folder: Path, budget_s: float | None = None, *, tvm: str = "1", empty: bool = False
) -> KernelTimes:
    start = None if fake is None else lambda: cast(Executor, fake)
    return KernelTimes(StoredKernelTimes(folder, tvm, empty=empty), start, Console(quiet=True), budget_s)


def test_a_kernel_that_failed_has_no_time(folder: Path) -> None:
    fake = Fake(MeasureOutcome(run_secs=(2.0,)), MeasureOutcome(failure=FailureKind.RUN_ERROR))
    measure = times(fake, folder)
    assert measure(MODULES) == [2.0, None]
    assert str(measure) == "measured 1 kernel, 1 failed"


def test_the_second_run_measures_nothing(folder: Path) -> None:
    two = Fake(MeasureOutcome(run_secs=(2.0,)), MeasureOutcome(run_secs=(3.0,)))
    assert times(two, folder)([*MODULES, MODULES[0]]) == [2.0, 3.0, 2.0]
    fake = Fake()
    measure = times(fake, folder)
    assert measure(MODULES) == [2.0, 3.0] and fake.calls == 0
    assert str(measure) == "measured no kernels, 2 known from the tuning database"


def test_one_unknown_kernel_is_measured_alone(folder: Path) -> None:
    times(Fake(MeasureOutcome(run_secs=(2.0,))), folder)(MODULES[:1])
    measure = times(Fake(MeasureOutcome(run_secs=(3.0,))), folder)
    assert measure(MODULES) == [2.0, 3.0] and (measure.measured, measure.reused) == (1, 1)


def test_times_of_another_tvm_are_measured_again_and_so_are_all_of_them_on_request(folder: Path) -> None:
    times(Fake(MeasureOutcome(run_secs=(2.0,))), folder)(MODULES[:1])
    assert times(None, folder, tvm="2")(MODULES) == [None, None]
    again = Fake(MeasureOutcome(run_secs=(1.0,)))
    assert times(again, folder, empty=True)(MODULES[:1]) == [1.0] and again.calls == 1
    assert times(None, folder)(MODULES) == [1.0, None]


def test_measurements_are_a_stage_of_their_own(folder: Path) -> None:
    stages: list[str] = []

    def stage(name: str) -> AbstractContextManager[None]:
        stages.append(name)
        return nullcontext()

    fake = cast(Executor, Fake(MeasureOutcome(run_secs=(2.0,)), MeasureOutcome(run_secs=(3.0,))))
    stored = StoredKernelTimes(folder, "1")
    measure = KernelTimes(stored, lambda: fake, Console(quiet=True), stage=stage)
    assert measure(MODULES) == measure(MODULES) == [2.0, 3.0]
    assert stages == [subject.MEASURING]


def test_nothing_is_measured_after_the_budget(folder: Path) -> None:
    fake = Fake()
    measure = times(fake, folder, budget_s=0.0)
    assert measure(MODULES) == [None, None]
    assert fake.calls == 0
    assert str(measure) == "measured no kernels, 2 left to predictions after the end of budget_s"


def test_ctrl_c_leaves_the_rest_to_predictions(folder: Path) -> None:
    fake = Fake(KeyboardInterrupt())
    measure = times(fake, folder)
    assert [measure(MODULES), measure(MODULES)] == [[None, None]] * 2
    assert fake.calls == 1
    assert str(measure) == "measured no kernels, 4 left to predictions after the interruption"


def test_ctrl_c_between_two_measurements_leaves_the_rest_to_predictions(folder: Path) -> None:
    """The second one ends the command."""
    fake = Fake(MeasureOutcome(run_secs=(2.0,)))
    measure = times(fake, folder)
    given = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    before = signal.getsignal(signal.SIGINT)
    with measure.ending_by_ctrl_c():
        assert measure(MODULES[:1]) == [2.0]
        signal.raise_signal(signal.SIGINT)
        assert measure(MODULES) == [2.0, None] and fake.calls == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, given)
    assert str(measure).endswith("1 left to predictions after the interruption")


def test_other_signals_end_the_command(folder: Path) -> None:
    with pytest.raises(Interrupted):
        times(Fake(Interrupted(signal.SIGTERM)), folder)(MODULES)


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


def chosen(measure: KernelTimes | None) -> dict[str, Any]:
    """Description of the task of a product."""
    data, weight = tensor("data", symbol("batch"), 8), tensor("weight", 8, 8)
    network = Network(
        [data, weight, product(data, weight)],
        {"batch": (1, 2)},
        constants={1: np.zeros((8, 8), np.float32)},
        measure=measure,
    )
    (task,) = network.made.tasks
    found: dict[str, Any] = json.loads(json.dumps(task.as_json()))
    return found


_RUN = """
import sys
from pathlib import Path
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureConfig
from foretune.inference.dynamic.kernel_times import kernel_times, kernel_turn
from foretune.inference.run.config import TuneConfig
from rich.console import Console
from tests.inference.dynamic.test_kernel_times import MODULES
folder, target = Path(sys.argv[1]), parse_target("llvm")
limits = MeasureConfig(build_timeout_s=300, run_timeout_s=300, repeats=1, groups=1)
config = TuneConfig(network="resnet18", output=folder, database=folder, measure=limits, workers=1)
console = Console(width=1000)
with kernel_turn(config, target, console), kernel_times(config, target, console) as times:
    assert times is not None and all(times(MODULES))
"""


def test_two_runs_at_the_same_time_measure_one_after_the_other(tmp_path: Path) -> None:
    """Whichever is first measures both kernels; the other one waits for its end and knows both."""
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _RUN, tmp_path],
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                )
            )
            for _ in range(2)
        ]
        texts = sorted(run.communicate(timeout=600)[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    second, first = texts if "another run" in texts[0] else reversed(texts)
    assert first.splitlines()[-1] == "measured 2 kernels"
    assert second.splitlines()[-1] == "measured no kernels, 2 known from the tuning database"
    assert "another run" not in first
    assert "is tuning into" in second and "search=no_measurement" in second


def test_a_run_that_measures_nothing_waits_for_no_other(tmp_path: Path) -> None:
    without = config(tmp_path, search=OneShotConfig(measure=False, rounds=1, extra_rounds=0))
    folder = folder_of(tmp_path, TARGET, target_hardware(TARGET, measured=False))
    folder.mkdir()
    with held_by_another_process(folder / TURN_FILE), kernel_turn(without, TARGET, Console()) as waited_s:
        assert waited_s == 0


def test_kernels_are_measured_on_this_machine_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(TARGET)
    limits = MeasureConfig(build_timeout_s=300, run_timeout_s=300, repeats=1, groups=1)
    settings = config(tmp_path, measure=limits, workers=1)
    with kernel_times(settings, TARGET, Console(quiet=True)) as measure:
        first = chosen(measure)
    (table,) = first["tables"]
    assert {one["size"] for one in table["measured"]} == {1, 2}
    assert all(one["seconds"] > 0 and one["cycles"] > 0 for one in table["measured"])
    assert str(measure) == f"measured {len(table['measured'])} kernels"

    def no_executor(*_: Any) -> Executor:
        raise AssertionError("the second run measures")

    monkeypatch.setattr(subject, "make_executor", no_executor)
    without = replace(settings, search=OneShotConfig(measure=False, rounds=1, extra_rounds=0))
    for again in (settings, without):
        with kernel_times(again, TARGET, Console(quiet=True)) as measure:
            assert chosen(measure) == first
        assert measure is not None and measure.reused == len(table["measured"])
    with kernel_times(without, cpu("x86-64-v2"), Console(quiet=True)) as measure:
        assert measure is None  # another target has no times
    (folder,) = tmp_path.glob(f"*/{KERNELS_FILE}")
    assert (folder.parent / DEVICE_FILE).exists()  # so that a bundle can be made of it


class Perceptron(nn.Module):
    """Layers with a ReLU from 24 to 40 features, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(24, 40), nn.Linear(40, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.relu(self.widen(x)))


class Tower(nn.Module):
    """Two perceptrons with a layer norm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(24), Perceptron(), Perceptron()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)))


def measured(network: str, symbol: str, measure: KernelTimes) -> list[Any]:
    """Measured kernels of each product of a network."""
    name = f"{__name__}:{network}"
    dynamic = dynamic_inputs(name, [[1, f"{symbol}=1:9", 24]], 1, {})
    loaded = load_network(name, inputs=dynamic.at(dynamic.traced))
    _, tasks = scheduled(to_symbolic_relax(loaded, dynamic, TARGET), dynamic, TARGET, measure)
    tables = [table for task in tasks if task["kind"] == "product" for table in task["tables"]]
    return [table["measured"] for table in tables]


def test_another_network_with_the_same_products_measures_nothing(folder: Path) -> None:
    outcomes = [MeasureOutcome(run_secs=(number + 1.0,)) for number in range(100)]
    first = times(Fake(*outcomes), folder)
    known = measured("Perceptron", "rows", first)
    assert len(known) == 2 and all(known) and first.measured == sum(map(len, known))
    other = Fake()
    second = times(other, folder)
    assert measured("Tower", "length", second) == known
    assert (other.calls, second.measured, second.reused) == (0, 0, first.measured)
    assert len((folder / KERNELS_FILE).read_text().splitlines()) == first.measured
