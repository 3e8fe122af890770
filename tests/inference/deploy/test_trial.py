"""Trial of a tuned network: wrong schedules are left out, and wrong outputs write no library."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from foretune.compiler.codegen.objects import NOTHING_LINKED, Linked
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy import comparison as comparison_module
from foretune.inference.deploy.comparison import Comparison
from foretune.inference.deploy.outputs import OutputCheck
from foretune.inference.deploy.trial import Trial
from foretune.inference.run.profiling import StageClock
from foretune.inference.run.result import NOT_BUILT, WRONG, TaskResult
from rich.console import Console
from support.results import make_task

HERE = parse_target("llvm")
OTHER = parse_target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})
TASKS = [make_task(name=name, workload_hash=f"hash of {name}") for name in ("a", "b", "c")]


@dataclass
class Compiled:
    """A compiled network that knows which tasks have schedules."""

    scheduled: tuple[str, ...]
    unbuildable: tuple[str, ...] = ()
    written: list[Path] = field(default_factory=list)
    linked: Linked = NOTHING_LINKED
    kept: bool = False

    @property
    def from_earlier_run(self) -> bool:
        return bool(self.linked.symbols)

    def keep(self) -> None:
        self.kept = True

    def forget(self) -> None:
        self.kept = False

    def link(self) -> None:
        pass

    def export(self, path: Path) -> None:
        self.written.append(path)


class FakeTrial(Trial):
    """Compiles `Compiled` networks."""

    def compiled(self, tuned: Any, without: Collection[str] = ()) -> Any:
        self.last = Compiled(tuple(task.name for task in TASKS if task.workload_hash not in without))
        return self.last


def trial() -> FakeTrial:
    return FakeTrial(SimpleNamespace(), Console(quiet=True), StageClock(), lambda: 0.0)  # type: ignore[arg-type]


def tuned(wrong: Collection[str], target: Any = HERE) -> Any:
    """A network whose outputs differ while one of the tasks in `wrong` has a schedule."""

    def check(compiled: Compiled) -> OutputCheck:
        return OutputCheck(float("*" in wrong or bool(set(wrong) & set(compiled.scheduled))), 0.5)

    return SimpleNamespace(results=TASKS, target=target, original=SimpleNamespace(check=check))


@pytest.mark.parametrize("wrong", ["", "b", "ac"])
def test_a_task_whose_schedule_changes_the_outputs_runs_untuned(wrong: str) -> None:
    compiled = Compiled(("a", "b", "c"), unbuildable=("d",))
    found, check, reasons = trial().checked(tuned(wrong), compiled)
    assert check.agrees and set(found.scheduled) == set("abc") - set(wrong)
    assert reasons == {"d": NOT_BUILT, **dict.fromkeys(wrong, WRONG)}


def test_wrong_object_files_are_compiled_anew() -> None:
    def check(compiled: Compiled) -> OutputCheck:
        return OutputCheck(float(bool(compiled.linked.symbols)), 0.5)

    network = SimpleNamespace(results=TASKS, target=HERE, original=SimpleNamespace(check=check))
    linked = Compiled(("a", "b", "c"), linked=Linked({"a": "object_0"}, {"object_0": b""}))
    found, checked, reasons = trial().checked(network, linked)  # type: ignore[arg-type]
    assert checked.agrees and found.scheduled == ("a", "b", "c") and not found.linked.symbols
    assert reasons == {}


@pytest.mark.parametrize(("wrong", "written"), [("", True), ("b", True), ("*", False)])
def test_wrong_outputs_write_no_library(wrong: str, written: bool, tmp_path: Path) -> None:
    runs = trial()
    timed = runs._export_alone(tmp_path / "net.so", tuned(wrong))
    assert timed.check is not None and timed.check.agrees == written
    assert runs.last.written == ([tmp_path / "net.so"] if written else [])


def test_a_network_for_another_machine_is_written_without_a_run(tmp_path: Path) -> None:
    runs = trial()
    assert runs._export_alone(tmp_path / "net.so", tuned("*", OTHER)).check is None
    assert runs.last.written == [tmp_path / "net.so"]


class InterruptedRivals(Comparison):
    """Contestants that a user interrupts while they start."""

    def start(self, forms: Any = None) -> None:
        pass

    def enter(self, forms: Any) -> None:
        raise KeyboardInterrupt


def test_the_library_is_written_before_the_results_are_complete_and_the_rivals_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_module, "Comparison", InterruptedRivals)
    printed, library = StringIO(), tmp_path / "net.so"
    config = SimpleNamespace(
        executor=SimpleNamespace(kind="local"),
        lowering=SimpleNamespace(dtype="float32"),
        export=library,
        rivals=[],
        rival_limit_s=1.0,
        untuned_limit_s=0.0,
        network_arguments={},
    )
    runs = FakeTrial(config, Console(file=printed, width=200), StageClock(), lambda: 7.0)  # type: ignore[arg-type]
    network = SimpleNamespace(inputs=(), quantised_path=None, onnx_path=None)
    subject = SimpleNamespace(**vars(tuned("")), network=network, relax_mod=None)
    written_by_then = []

    def complete() -> list[TaskResult]:
        written_by_then.extend(runs.last.written)
        return TASKS

    with pytest.raises(KeyboardInterrupt):
        runs.timed(subject, complete)  # type: ignore[arg-type]
    assert written_by_then == [library] and runs.last.kept
    assert runs.last.written == [library] and [one.after_s for one in runs.written] == [7.0]
    assert f"wrote {library} after 7 s; it can be used now" in printed.getvalue()
    assert f"{library} and all schedules are kept; the same command" in printed.getvalue()
