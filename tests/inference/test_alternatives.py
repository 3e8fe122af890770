"""A network whose alternatives are chosen by the latencies of its database, which are made up here."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks import Lowering, extract_tasks, find_alternatives, load_network, to_relax
from foretune.compiler.networks.alternatives import winograd as kind
from foretune.compiler.networks.alternatives.alternatives import Alternative
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.dataset.measure import MeasureOutcome
from foretune.inference.bundle.exporting import export_bundle
from foretune.inference.database.tuning_database import MissingScheduleError, TuningDatabase
from foretune.inference.inspect import InspectConfig
from foretune.inference.inspect import run as inspect
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.result import NOTHING_TO_TUNE, TuneResult
from foretune.inference.run.result_file import load_result
from foretune.inference.search.alternatives import _expected, preferred, take
from foretune.inference.search.config import OneShotConfig
from foretune.inference.search.limits import Limits
from foretune.inference.search.opening import needed_tasks
from foretune.inference.tune import run
from foretune.inference.workers.searchers import start_searchers
from rich.console import Console
from support.checkpoints import random_checkpoint
from support.drafts import CPU
from support.fake_executor import FakeExecutor
from support.results import make_task
from support.schedules import add_schedules
from support.searchers import network_tuner
from support.tuning import SHORT_SEARCH
from tvm.s_tir import meta_schedule as ms

LOWERING = Lowering(winograd=[2])
TARGET = parse_target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 1})
HERE = parse_target("llvm")
NETWORK, INPUTS = "support.networks:Threes", [[1, 3, 8, 8]]
QUIET = Console(quiet=True)


@pytest.fixture(autouse=True)
def small_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets layers be offered that are small enough for tests."""
    monkeypatch.setattr(kind, "LEAST_GAIN", 0.0)


def config(folder: Path, **changes: Any) -> TuneConfig:
    settings = {
        "network": NETWORK,
        "inputs": INPUTS,
        "output": folder / "report",
        "database": folder / "database",
        "checkpoint": None,
        "rivals": [],
        "timing_repeats": 1,
        "untuned_limit_s": 1e-9,
        "lowering": LOWERING,
        "search": OneShotConfig("evolutionary", processes=0),
        "workers": 1,
        **changes,
    }
    return TuneConfig(**settings)


def parts(batch: int = 1, target: Any = HERE) -> tuple[list[Task], list[Alternative]]:
    """Convolutions behind the stem, then all other tasks; alternatives to the former in their order."""
    network = load_network(NETWORK, inputs=INPUTS if batch == 1 else None, batch=batch)
    mod = to_relax(network, target, LOWERING)
    tasks = extract_tasks(mod, target, "network")
    alternatives = find_alternatives(mod, target, LOWERING)
    replaced = [one.offer.replaces[0] for one in alternatives]
    return sorted(tasks, key=lambda task: task.workload_hash not in replaced), alternatives


def fill(folder: Path, tasks: Mapping[Task, float]) -> TuningDatabase:
    """A database with these latencies, in which nothing is left to measure."""
    database = TuningDatabase(folder / "database", HERE, target_hardware(HERE, measured=False))
    schedules = ms.database.JSONDatabase(work_dir=str(database.folder))
    for task, latency_s in tasks.items():
        if task.operator == "elementwise":  # MetaSchedule has no decisions for it
            database.notes.note_ended(task, NOTHING_TO_TUNE)
        else:
            add_schedules(schedules, [task], HERE, latency_s)
        if task.weight:
            database.notes.note_untuned(task, 1.0)
    database.notes.note_nothing_left(config(folder).task_settings)
    return TuningDatabase(folder / "database", HERE, target_hardware(HERE, measured=False))


def chosen(result: TuneResult) -> list[tuple[int, int, float | None, float | None]]:
    return [(one.places, one.taken, one.direct_s, one.alternative_s) for one in result.alternatives]


@pytest.mark.slow
def test_the_network_takes_the_faster_way_of_each_piece(tmp_path: Path) -> None:
    tasks, (body, residual) = parts()
    assert (body.offer.calls, residual.offer.calls) == (2, 1)
    (of_body,), (of_residual,) = body.offer.tasks, residual.offer.tasks
    latencies_s = {of_body: 0.4e-3, of_residual: 1.2e-3, **dict.fromkeys(tasks, 1e-3)}
    fill(tmp_path, latencies_s)
    result = run(config(tmp_path), QUIET)
    assert chosen(result) == [
        (2, 2, pytest.approx(1e-3), pytest.approx(0.4e-3)),
        (1, 0, pytest.approx(1e-3), pytest.approx(1.2e-3)),
    ]
    weights = {task.workload_hash: task.weight for task in result.tasks}
    assert [weights[task.workload_hash] for task in (*tasks[:2], of_body, of_residual)] == [0, 1, 2, 0]
    assert sum(task.candidates_measured for task in result.tasks) == 0
    assert result.outputs_match
    assert result.bridges() == []
    # The speed-up is over the untuned network, which has none of them.
    (taken,) = [task for task in result.tasks if task.workload_hash == of_body.workload_hash]
    assert taken.untuned_latency_s == pytest.approx(1.0)
    assert load_result(tmp_path / "report" / "report.json").alternatives == result.alternatives
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Winograd F(2x2, 3x3) of" in page and "1 of 2 alternatives taken" in page


def test_what_the_network_does_without_may_lack_a_schedule(tmp_path: Path) -> None:
    tasks, (body, residual) = parts()
    offers = [body.offer, residual.offer]
    convolutions = [task for task in tasks if task.operator == "conv2d"]
    without = dict.fromkeys(convolutions[1:], 1e-3)
    database = fill(tmp_path / "alternative", {**without, body.offer.tasks[0]: 1e-3})
    needed = needed_tasks(convolutions, offers, database.network_latency_s)
    assert [task.name for task in needed] == [task.name for task in (*convolutions[1:], *body.offer.tasks)]
    database.require(needed)
    database = fill(tmp_path / "neither", without)
    with pytest.raises(MissingScheduleError, match=convolutions[0].name):
        database.require(needed_tasks(convolutions, offers, database.network_latency_s))


def test_inspect_and_bundles_know_the_alternatives(tmp_path: Path) -> None:
    tasks, (body, residual) = parts()
    fill(tmp_path, {body.offer.tasks[0]: 0.4e-3, residual.offer.tasks[0]: 2e-3, **dict.fromkeys(tasks, 1e-3)})
    outlook = inspect(
        InspectConfig(
            network=NETWORK,
            inputs=INPUTS,
            database=tmp_path / "database",
            checkpoint=None,
            lowering=LOWERING,
        ),
        QUIET,
    )
    of_alternatives = {task.name: task for task in outlook.tasks if "winograd" in task.name}
    assert [task.name for one in (body, residual) for task in one.offer.tasks] == [*of_alternatives]
    assert [(task.weight, task.state, task.due) for task in of_alternatives.values()] == [
        (0, "tuned", False)
    ] * 2
    report = export_bundle(
        tmp_path / "net.bundle", tmp_path / "database", network=NETWORK, inputs=INPUTS, lowering=LOWERING
    )
    assert set(of_alternatives) <= {task.name for task in report.bundle.manifest.tasks}


def test_an_interrupted_search_of_alternatives_goes_on(tmp_path: Path) -> None:
    """Searches are real, latencies made up, each shorter than the one before."""
    network = load_network(NETWORK, inputs=INPUTS)
    mod = to_relax(network, TARGET, LOWERING)
    alternatives = find_alternatives(mod, TARGET, LOWERING)[:1]
    offers = [one.offer for one in alternatives]
    replaced = [t for t in extract_tasks(mod, TARGET, "x") if t.workload_hash in offers[0].replaces]

    def tuned(limits: Limits) -> Any:
        seconds = (1e-3 / n for n in itertools.count(1))
        executor = FakeExecutor(lambda job: MeasureOutcome((next(seconds),)))
        searchers = start_searchers(SHORT_SEARCH, TARGET, "cpu", CPU)
        database = TuningDatabase(tmp_path, TARGET, CPU)
        tuner = network_tuner(SHORT_SEARCH, executor, searchers, database, limits=limits)
        try:
            return tuner.tune(replaced, [1.0], offers), executor.asked
        finally:
            for searcher in searchers:
                searcher.close()

    first, asked = tuned(Limits(breadth_first=True, latency_target_s=0.5))
    assert first[0].tuned_latency_s is not None and asked
    second, _ = tuned(Limits())
    assert not any(result.from_database for result in second)
    assert len(second) == 2 and second[1].tuned_latency_s is not None
    third, asked = tuned(Limits())
    assert asked == []
    assert all(result.from_database for result in third)
    choices = [take(mod, alternatives, results).alternatives for results in (second, third)]
    assert choices[0] == choices[1]


def test_auto_applies_where_there_are_templates(tmp_path: Path) -> None:
    asked = Lowering(winograd="auto")
    unmeasured = OneShotConfig(rounds=1, top_k=4, measure=False)
    without = config(tmp_path, search=OneShotConfig(templates=0), lowering=asked).lowering
    assert (without.winograd, without.attention) == ("off", "off")
    for search in (OneShotConfig(), unmeasured):
        found = config(tmp_path, search=search, lowering=asked).lowering
        assert (found.winograd, found.attention) == ("auto", "auto")


@pytest.mark.slow
@pytest.mark.parametrize(("optimism", "taken"), [(1e-3, [2, 1]), (1e3, [0, 0])])
def test_without_a_measurement_expected_gains_decide(
    optimism: float, taken: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "OPTIMISM", {2: optimism})
    search = OneShotConfig(
        measure=False, rounds=1, top_k=4, replay_factor=1, surrogate=False, finalists=0, templates=1
    )
    checkpoint = str(random_checkpoint(tmp_path / "random"))
    settings = config(tmp_path, search=replace(search, processes=0), checkpoint=checkpoint)
    result = run(settings, QUIET)
    assert chosen(result) == [(2, taken[0], None, None), (1, taken[1], None, None)]
    assert result.outputs_match
    left_out = [task for task in result.tasks if not task.weight]
    assert len(left_out) == 2 and not any(task.predicted or task.candidates_proposed for task in left_out)
    again = run(replace(settings, require_database=True), QUIET)
    assert chosen(again) == chosen(result) and again.outputs_match
    weights = {task.name: task.weight for task in result.tasks if "winograd" in task.name}
    assert list(weights.values()) == taken


def test_expected_gains_decide_nothing_in_a_run_that_measures(tmp_path: Path) -> None:
    """A layer that an interrupted run has not measured yet stays direct."""
    mod = to_relax(load_network(NETWORK, inputs=INPUTS), HERE, LOWERING)
    alternatives = [replace(one, gain=2.0) for one in find_alternatives(mod, HERE, LOWERING)]
    tasks = [*extract_tasks(mod, HERE, "x"), *(task for one in alternatives for task in one.offer.tasks)]
    unknown = {"tuned_latency_s": None, "untuned_latency_s": None}
    results = [make_task(task.name, workload_hash=task.workload_hash, **unknown) for task in tasks]
    taken = {measured: take(mod, alternatives, results, measured) for measured in (True, False)}
    assert [one.taken for one in taken[True].alternatives] == [0, 0]
    assert [one.taken for one in taken[False].alternatives] == [2, 1]


def test_expected_gains_decide_nothing_where_a_way_was_measured() -> None:
    """The body is known, its alternative is not; the residual's gain is not above one."""
    _, alternatives = parts()
    body, residual = (replace(one, gain=gain) for one, gain in zip(alternatives, (2.0, 0.5), strict=True))
    latency_s = {body.offer.replaces[0]: 1e-3}
    expected = _expected([body.offer, residual.offer], latency_s.get)
    assert set(expected.values()) == {1.0, 2.0}
    assert preferred([body.offer, residual.offer], {**latency_s, **expected}.get) == []
    faster = replace(body.offer, replaces=residual.offer.replaces, gain=3.0)
    slower = replace(residual.offer, gain=2.0)
    found = preferred([slower, faster], _expected([slower, faster], {}.get).get)
    assert [offer.gain for offer in found] == [3.0, 2.0]


def test_an_expected_gain_of_several_calls() -> None:
    """Two calls have the value 1 each, so that a gain of 1.25 is a value of 1.6."""
    _, (body, residual) = parts()
    replaces = (*body.offer.replaces, *residual.offer.replaces)
    both = replace(body.offer, replaces=replaces, replaced=("a", "b"), gain=1.25)
    expected = _expected([both], {}.get)
    assert sorted(expected.values()) == [1.0, 1.0, 1.6]
    assert preferred([both], expected.get) == [both]
    slower = replace(both, gain=0.8)
    assert preferred([slower], _expected([slower], {}.get).get) == []
