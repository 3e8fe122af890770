"""The library of a run during its search, with a compiler and a search that do as told."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.anytime import library as subject
from foretune.inference.anytime.library import AnytimeLibrary, Subject, open_tasks
from foretune.inference.anytime.rule import ExchangeRule
from foretune.inference.deploy.outputs import OutputCheck
from foretune.inference.deploy.trial import Trial
from foretune.inference.run.profiling import StageClock
from foretune.inference.run.result import UNTUNED_IS_FASTER, TaskResult
from rich.console import Console
from support.checkpoints import TASK
from support.results import make_task

TARGET = parse_target("llvm")
MEASURED = make_task("measured", workload_hash="measured")
UNMEASURED = {"candidates_measured": 0, "tuned_latency_s": None, "reason": "no time"}
OPEN = make_task("open", workload_hash=TASK.workload_hash, **UNMEASURED)
PLAIN = make_task("plain", workload_hash="plain", **UNMEASURED)
SLOWER = make_task("slower", workload_hash="slower", tuned_latency_s=None, reason=UNTUNED_IS_FASTER)


@dataclass
class Form:
    """A compiled network with a latency."""

    latency_s: float
    files: list[Path] = field(default_factory=list)

    def link(self) -> None:
        pass

    def export(self, path: Path) -> None:
        path.write_text(str(self.latency_s))


class Compiler(Trial):
    """Compiles networks with the latencies in `latencies_s`; an error in their place is raised."""

    def __init__(self, export: Path, latencies_s: Sequence[float | BaseException], printed: StringIO) -> None:
        config = SimpleNamespace(export=export, search=SimpleNamespace(max_code=None))
        self.latencies_s = list(latencies_s)
        self.tuned: list[Any] = []
        console = Console(file=printed, width=200)
        super().__init__(config, console, StageClock(), lambda: 10.0 * len(self.tuned))  # type: ignore[arg-type]
        self.wrong = False

    def compiled(self, tuned: Any, without: Any = ()) -> Any:
        self.tuned.append(tuned)
        latency_s = self.latencies_s.pop(0)
        if isinstance(latency_s, BaseException):
            raise latency_s
        return Form(latency_s)

    def checked(self, tuned: Any, compiled: Any) -> Any:
        return compiled, OutputCheck(float(self.wrong), 0.5), {}


@dataclass
class Search:
    """A search with a latency of the network that a test sets, also in the place of its measuring threads."""

    latency_s: float = math.inf
    done: float = 0.5
    found: Sequence[TaskResult] = (MEASURED, OPEN, PLAIN, SLOWER)
    pauses: int = 0
    is_paused: bool = False

    def network_s(self) -> float:
        return self.latency_s

    def share_done(self) -> float:
        return self.done

    def results(self) -> list[TaskResult]:
        return list(self.found)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pauses, self.is_paused = self.pauses + 1, True
        yield
        self.is_paused = False


class Run:
    """A library that is written to `path`, and the search for it."""

    def __init__(
        self, folder: Path, latencies_s: Sequence[float | BaseException], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.path, self.printed, self.search = folder / "net.so", StringIO(), Search()
        self.trial = Compiler(self.path, latencies_s, self.printed)
        lowered = SimpleNamespace(relax_mod=None, alternatives=[], tasks=[TASK])
        original = SimpleNamespace(describe=lambda check: "outputs differ")
        workforce = SimpleNamespace(executor=None)
        opened = SimpleNamespace(target=TARGET, database=None, workforce=workforce)
        network = Subject(SimpleNamespace(inputs=()), original, lowered, opened)  # type: ignore[arg-type]
        self.library = AnytimeLibrary(self.trial, network, rule=ExchangeRule(most_cost=math.inf))
        monkeypatch.setattr(subject, "_timed_s", self._timed_s)
        monkeypatch.setattr(subject, "alone_on", lambda executor: nullcontext())
        self.timed_while_paused: list[bool] = []

    def _timed_s(self, compiled: Form, network: Any, threads: int) -> float:
        self.timed_while_paused.append(self.search.is_paused)
        return compiled.latency_s

    def round(self, latency_s: float) -> None:
        """A round after which the network has this latency."""
        self.search.latency_s = latency_s
        self.library.between_rounds(self.search, self.search)  # type: ignore[arg-type]

    @property
    def written(self) -> list[tuple[float, float | None]]:
        return [(one.after_s, one.latency_s) for one in self.trial.written]


def test_a_library_is_written_before_the_search_and_exchanged_for_much_faster_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, [0.020, 0.010, 0.005], monkeypatch)
    run.round(math.inf)
    assert run.path.read_text() == "0.02" and run.written == [(10.0, None)]
    assert "after 10 s; it can be used now; better ones follow" in run.printed.getvalue()
    run.round(0.019)  # it is timed now, and the search has saved 5 %
    assert run.written == [(10.0, 0.020)]
    run.round(0.011)
    assert run.path.read_text() == "0.01" and run.written[1:] == [(20.0, 0.010)]
    assert "a run takes 10.0 ms instead of 20.0 ms" in run.printed.getvalue()
    run.round(0.010)  # 9 % less than 11 ms
    assert len(run.written) == 2
    run.round(0.0098)
    assert run.path.read_text() == "0.005" and len(run.written) == 3
    assert run.timed_while_paused == [True] * 3


def test_a_library_that_is_not_faster_after_all_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, [0.020, 0.020, 0.001], monkeypatch)
    for latency_s in (math.inf, 0.010, 0.0095):
        run.round(latency_s)
    assert run.path.read_text() == "0.02" and len(run.written) == 1
    run.round(0.009)  # 10 % less than at the last attempt
    assert run.path.read_text() == "0.001"


def test_tasks_without_a_measurement_have_templates_or_plain_schedules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, [0.020], monkeypatch)
    monkeypatch.setattr(subject.FirstSchedules, "_record", lambda self, task: object())
    run.round(math.inf)
    (tuned,) = run.trial.tuned
    assert [task.predicted for task in tuned.results] == [False, True, False, False]
    assert tuned.plain == {"plain"}
    assert open_tasks([MEASURED, OPEN, PLAIN, SLOWER]) == {TASK.workload_hash, "plain"}
    failed = replace(OPEN, candidates_measured=3)
    assert [task.predicted for task in run.library.filled([OPEN, failed])] == [True, False]


def test_an_error_leaves_the_library_and_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, [0.020, RuntimeError("no code\nand a trace"), 0.001], monkeypatch)
    run.round(math.inf)
    run.round(0.010)
    assert run.path.read_text() == "0.02"
    assert f"{run.path} stays as it is: no code\n" in run.printed.getvalue()
    run.round(0.005)
    assert run.path.read_text() == "0.001"


def test_a_library_with_other_outputs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, [0.020, 0.010], monkeypatch)
    run.trial.wrong = True
    run.round(math.inf)
    assert not run.path.exists() and run.written == []
    assert f"{run.path} is not written yet: outputs differ" in run.printed.getvalue()
    run.trial.wrong = False
    run.round(5.0)  # any library is better than none
    assert run.path.read_text() == "0.01"
    assert run.search.pauses == 1


def test_an_interruption_says_which_library_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, [0.020, KeyboardInterrupt()], monkeypatch)
    with pytest.raises(KeyboardInterrupt), run.trial.keeping_library():
        run.round(math.inf)
        run.round(0.001)
    assert run.path.read_text() == "0.02"
    assert f"{run.path}, written after 10 s, is complete and is kept" in run.printed.getvalue()
