"""Latencies that databases have, and what an advice without any does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.bolt.advice import run as run_module
from foretune.inference.bolt.advice.exchange import Cost
from foretune.inference.bolt.advice.latencies import SEARCHED, UNTUNED, Latency
from foretune.inference.bolt.advice.measured import known_latency
from foretune.inference.bolt.advice.run import AdviceRun, Asked, NoLatencyError
from foretune.inference.database.tuning_database import TuningDatabase
from rich.progress import Progress
from support.advice import CONV, FixedLatencies, layer
from support.fake_executor import HARDWARE
from support.schedules import add_schedules
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("llvm")
TASK = layer(CONV).task


def database(folder: Path, latency_s: float | None) -> TuningDatabase:
    """A database with a schedule of that latency, or with none."""
    found = TuningDatabase(folder, TARGET, HARDWARE)
    if latency_s is not None:
        add_schedules(ms.database.JSONDatabase(work_dir=str(found.folder)), [TASK], TARGET, latency_s)
    return TuningDatabase(folder, TARGET, HARDWARE)


@pytest.mark.parametrize("searched", [False, True])
def test_a_schedule_counts_unless_naive_loops_are_faster(tmp_path: Path, searched: bool) -> None:
    found = database(tmp_path, 2e-3)
    assert known_latency(found, TASK, SEARCHED, searched) == Latency(pytest.approx(2e-3), SEARCHED)
    found.notes.note_untuned(TASK, 5e-3)
    assert known_latency(found, TASK, SEARCHED, searched) == Latency(pytest.approx(2e-3), SEARCHED)
    found.notes.note_untuned(TASK, 1e-3)
    assert known_latency(found, TASK, SEARCHED, searched) == Latency(1e-3, UNTUNED)


def test_naive_loops_count_alone_where_a_search_found_nothing(tmp_path: Path) -> None:
    found = database(tmp_path, None)
    assert known_latency(found, TASK, SEARCHED, True) is None
    found.notes.note_untuned(TASK, 5e-3)
    assert known_latency(found, TASK, SEARCHED, False) is None  # the run may have been stopped
    assert known_latency(found, TASK, SEARCHED, True) == Latency(5e-3, UNTUNED)
    found.notes.note_untuned(TASK, float("inf"))
    assert known_latency(found, TASK, SEARCHED, True) is None


def test_an_advice_without_a_latency_is_an_error(tmp_path: Path) -> None:
    class Nothing(FixedLatencies):
        def best(self, *_: object) -> dict[str, Latency]:  # type: ignore[override]
            return {}

    asked = Asked(("relu",), None, 0.01, 1, 6000)
    run = AdviceRun(asked, TARGET, HARDWARE, Nothing(lambda task: 1.0), Progress(), tmp_path / "kept")
    with pytest.raises(NoLatencyError, match="network=net: no program of its 1 task ran"):
        run.advice("net", [TASK], [layer(CONV)])


@pytest.mark.parametrize("busy", [True, False])
def test_an_advice_from_a_disturbed_source_says_so(tmp_path: Path, busy: bool) -> None:
    class Source(FixedLatencies):
        @property
        def disturbed(self) -> bool:
            return busy

    asked = Asked(("relu",), None, 0.01, 1, 6000)
    run = AdviceRun(asked, TARGET, HARDWARE, Source(lambda task: 1.0), Progress(), tmp_path / "kept")
    assert run.advice("net", [TASK], [layer(CONV)]).disturbed == busy


def test_costs_that_were_measured_under_other_work_stay_marked(tmp_path: Path, monkeypatch: Any) -> None:
    """A run that continues on a quiet machine reads them from the file."""

    class Source(FixedLatencies):
        just_disturbed = True  # type: ignore[assignment]

    source = Source(lambda task: 1.0, {TASK.workload_hash: ["a trace"]})
    costs = {"relu": Cost(1.0, 1.0, 1, [0.0])}
    monkeypatch.setattr(run_module, "activation_costs", lambda *_: costs)
    asked = Asked(("relu",), None, 0.01, 1, 6000)
    for just_disturbed in (True, False):
        monkeypatch.setattr(Source, "just_disturbed", just_disturbed)
        run = AdviceRun(asked, TARGET, HARDWARE, source, Progress(), tmp_path / "kept")
        assert run.advice("net", [TASK], [layer(CONV)]).disturbed
