"""A run that measures nothing: what it takes, where it keeps it, and what a later run makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.codegen.linker import LinkerError
from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target, runs_here
from foretune.configuration import from_hydra
from foretune.dataset.measure import (
    ExecutorConfig,
    ExecutorConfigError,
    MeasureConfig,
    MeasureOutcome,
    make_executor,
)
from foretune.dataset.records.database_lines import RECORD_FILE, WORKLOAD_FILE
from foretune.inference.database.folder import DatabaseUnreadableError
from foretune.inference.database.predicted_schedules import PredictedSchedules
from foretune.inference.database.tuning_database import MissingScheduleError, TuningDatabase
from foretune.inference.database.tuning_notes import TuningNotes
from foretune.inference.deploy.compile import compile_network
from foretune.inference.run.config import TuneConfig, TuneConfigError
from foretune.inference.run.result import TuneResult
from foretune.inference.search.candidate import Candidate, MeasuredCandidate, record_json
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.search.limits import Limits
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.tune import run
from foretune.inference.workers import workforce
from foretune.inference.workers.messages import RoundReply
from foretune.inference.workers.workforce import NoCostModelError
from hydra import compose, initialize_config_module
from rich.console import Console
from support.checkpoints import HARDWARE, TARGET, TASK, candidates_of, random_checkpoint
from support.schedules import add_schedules
from support.searchers import TASKS, FakeDatabase, FakeSearcher, measuring_into, network_tuner
from tvm.s_tir import meta_schedule as ms

OTHER_CPU = {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 3}
NONE = ExecutorConfig("none")
ONCE = OneShotConfig(
    DraftingConfig(population=64, generations=1, keep=8),
    measure=False,
    rounds=1,
    top_k=4,
    replay_factor=1,
    surrogate=False,
    finalists=0,
    processes=0,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random"))


def config(folder: Path, checkpoint: str | None, **changes: Any) -> TuneConfig:
    settings = {
        "network": "torch.nn:Linear",
        "inputs": [[64, 256]],
        "kwargs": {"in_features": 256, "out_features": 256},
        "output": folder / "report",
        "database": folder / "database",
        "checkpoint": checkpoint,
        "rivals": [],
        "search": ONCE,
        "executor": NONE,
        **changes,
    }
    return TuneConfig(**settings)


def finished(settings: TuneConfig) -> TuneResult:
    return run(settings, Console(quiet=True))


@pytest.fixture
def no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a device was opened")

    monkeypatch.setattr(workforce, "make_executor", refuse)


# --- the loop


class Rated(FakeSearcher):
    """Proposals whose scores rise: the last is the best."""

    def reply(self) -> RoundReply:
        reply = super().reply()
        scored = [replace(one, score=place) for place, one in enumerate(reply.proposals)]
        return replace(reply, proposals=tuple(scored))


class Taken(dict):
    """Predicted schedules of a run, in the place of a folder of them."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = TuningNotes()

    def __contains__(self, task: object) -> bool:
        return super().__contains__(task.workload_hash)

    def commit(self, task: Any, record: str) -> None:
        self[task.workload_hash] = record


def test_each_task_takes_the_best_rated_after_one_round_and_nothing_is_measured() -> None:
    measured: list[Any] = []
    taken = Taken()
    searcher = Rated(latencies_s=((0.004, 0.006),))
    database = FakeDatabase(known={TASKS[1].workload_hash: 0.001})
    tuner = network_tuner(
        OneShotConfig(rounds=1, top_k=4, measure=False),
        measuring_into(measured),
        [searcher],
        database,
        predicted=taken,
    )
    results = tuner.tune(TASKS)
    assert measured == []
    assert sorted(searcher.order) == [0, 2]  # the second has a measured schedule
    assert [result.predicted for result in results] == [True, False, True]
    assert [result.tuned_latency_s for result in results] == [None, 0.001, None]
    assert [result.from_database for result in results] == [False, True, False]
    assert [result.reason for result in results] == ["", "", ""]
    assert set(taken) == {TASKS[0].workload_hash, TASKS[2].workload_hash}
    assert tuner.tuned == 3
    assert database.committed == []


def test_a_prediction_that_comes_after_the_time_is_kept() -> None:
    in_time = iter([True])
    taken = Taken()
    tuner = network_tuner(
        OneShotConfig(rounds=1, top_k=4, measure=False),
        measuring_into([]),
        [Rated(latencies_s=((0.004, 0.006),))],
        FakeDatabase(),
        limits=Limits(in_time=lambda: next(in_time, False)),
        predicted=taken,
    )
    results = tuner.tune(TASKS[:1])
    assert [result.predicted for result in results] == [True] and set(taken) == {TASKS[0].workload_hash}


def test_a_task_without_a_candidate_says_so() -> None:
    empty = network_tuner(
        OneShotConfig(rounds=1, top_k=4, measure=False),
        measuring_into([]),
        [FakeSearcher(replies=[RoundReply()])],
        FakeDatabase(),
        predicted=Taken(),
    )
    (result,) = empty.tune(TASKS[:1])
    assert (result.predicted, result.reason) == (False, "no candidate was found")


# --- where it is kept


def test_a_predicted_schedule_is_compiled_and_a_measured_one_goes_before_it(tmp_path: Path) -> None:
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    predicted = PredictedSchedules(database.folder, TARGET)
    assert TASK not in predicted
    _, (first, second, measured, *_) = candidates_of(TASK)
    records = [record_json(one.sch.trace) for one in (first, second)]
    for record in records:
        predicted.commit(TASK, record)
    again = PredictedSchedules(database.folder, TARGET)
    assert TASK in again
    tasks = [TASK.workload_hash]
    found = again.behind(database.best_schedules(tasks), tasks).query_tuning_record(TASK.mod, TARGET, "main")
    assert str(found.trace) == str(second.sch.trace)  # the last one
    # A measuring run knows nothing of it, and stock TVM reads the folder as any other.
    assert database.best_latency_s(TASK) is None
    assert database.latencies_s(TASK) == {}
    stock = ms.database.JSONDatabase(work_dir=str(again.folder))
    assert stock.query_schedule(TASK.mod, TARGET, "main") is not None
    outcome = MeasureOutcome((1e-3,))
    candidate = Candidate("measured", 0.0).with_text_of(measured)
    database.commit(TASK, [MeasuredCandidate(candidate, outcome)])
    found = again.behind(database.best_schedules(tasks), tasks).query_tuning_record(TASK.mod, TARGET, "main")
    assert str(found.trace) == str(measured.sch.trace)


def test_predictions_and_their_absence_are_enough_for_a_run_that_requires_them(tmp_path: Path) -> None:
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    predicted = PredictedSchedules(database.folder, TARGET)
    tasks = [to_task(Dense(rows=rows, in_features=32, out_features=16)) for rows in (2, 4)]
    _, (program, *_) = candidates_of(tasks[0])
    predicted.commit(tasks[0], record_json(program.sch.trace))
    with pytest.raises(MissingScheduleError, match=f"task {tasks[1].name}"):
        database.require(tasks, predicted)
    predicted.notes.note_left(tasks[1], "no candidate was found")
    read = PredictedSchedules(database.folder, TARGET, read_only=True)
    TuningDatabase(tmp_path, TARGET, HARDWARE, read_only=True).require(tasks, read)
    with pytest.raises(MissingScheduleError, match=r"2 of 2 tasks have none"):
        database.require(tasks)  # of a run that measures


def test_two_runs_that_predict_side_by_side_keep_each_schedule_under_its_own_task(tmp_path: Path) -> None:
    tasks = [to_task(Dense(rows=rows, in_features=32, out_features=16)) for rows in (2, 4, 6)]
    first, second = (PredictedSchedules(tmp_path, TARGET) for _ in range(2))
    for predicted, numbers in ((first, (0, 1, 2)), (second, (2, 1, 0))):
        for number in numbers:
            _, (program, *_) = candidates_of(tasks[number])
            predicted.commit(tasks[number], record_json(program.sch.trace))
    assert len((first.folder / WORKLOAD_FILE).read_text().splitlines()) == 3
    names = [task.workload_hash for task in tasks]
    found = PredictedSchedules(tmp_path, TARGET).behind(ms.database.MemoryDatabase(), names)
    stock = ms.database.JSONDatabase(work_dir=str(first.folder))
    for database in (found, stock):
        records = [database.query_tuning_record(task.mod, TARGET, "main") for task in tasks]
        assert [int(record.args_info[0].shape[0]) for record in records] == [2, 4, 6]


def test_an_unreadable_line_of_predictions_is_named(tmp_path: Path) -> None:
    predicted = PredictedSchedules(tmp_path, TARGET)
    for line in ("[7, []]", "null", "no JSON"):
        (predicted.folder / RECORD_FILE).write_text(f"{line}\n[0, []]\n")  # the last line is whole
        with pytest.raises(DatabaseUnreadableError, match=r"database_tuning_record.json: line 1 cannot"):
            PredictedSchedules(tmp_path, TARGET)


# --- whole runs


def test_a_network_for_another_cpu_ends_with_schedules_and_a_library(
    checkpoint: str, tmp_path: Path, no_devices: None
) -> None:
    library = tmp_path / "linear.so"
    settings = config(tmp_path, checkpoint, target=OTHER_CPU, export=library)
    result = finished(settings)
    (task,) = result.tasks
    assert task.predicted and task.tuned_latency_s is None and task.untuned_latency_s is None
    assert task.candidates_measured == 0 < task.candidates_proposed
    # Outputs are compared where the CPU of the target is this one, or an older one of its kind.
    assert result.contestants == [] and result.outputs_match is (runs_here(parse_target(OTHER_CPU)) or None)
    assert library.stat().st_size > 0
    assert b"skylake-avx512" in library.read_bytes()  # in its description
    again = finished(settings)
    assert again.tasks[0].predicted and again.tasks[0].from_database
    assert again.tasks[0].candidates_tried == 0


def test_a_task_takes_its_most_promising_template_without_a_search(
    checkpoint: str, tmp_path: Path, no_devices: None
) -> None:
    settings = config(tmp_path, checkpoint, target=OTHER_CPU, search=replace(ONCE, templates=4))
    (task,) = finished(settings).tasks
    assert task.predicted
    assert (task.candidates_proposed, task.candidates_scored) == (1, 0)  # nothing else to compare it with
    searched = config(tmp_path / "none", checkpoint, target=OTHER_CPU, search=replace(ONCE, templates=0))
    (task,) = finished(searched).tasks
    assert task.candidates_proposed > 1


def test_a_later_run_that_measures_searches_the_task(
    checkpoint: str, tmp_path: Path, no_devices: None
) -> None:
    finished(config(tmp_path, checkpoint))
    measuring = config(tmp_path, checkpoint, executor=ExecutorConfig(), search=replace(ONCE, measure=True))
    with pytest.raises(AssertionError, match="a device was opened"):
        finished(measuring)


def test_on_this_machine_the_predicted_network_is_checked(
    checkpoint: str, tmp_path: Path, no_devices: None
) -> None:
    result = finished(config(tmp_path, checkpoint, executor=ExecutorConfig(), timing_repeats=1))
    assert result.outputs_match
    assert [one.name for one in result.contestants] == ["tuned TVM"]
    assert result.tasks[0].predicted


def test_what_ended_without_a_schedule_stays_unscheduled(checkpoint: str, tmp_path: Path) -> None:
    """A measured schedule that is slower than none is not compiled in, whatever is predicted."""
    network = load_network("torch.nn:Linear", inputs=[[4, 16]], kwargs={"in_features": 16, "out_features": 8})
    mod = to_relax(network, TARGET)
    (task,) = extract_tasks(mod, TARGET, "linear")
    database = ms.database.MemoryDatabase()
    add_schedules(database, [task], TARGET, 1.0)
    assert compile_network(mod, TARGET, database).scheduled
    assert not compile_network(mod, TARGET, database, unscheduled={task.workload_hash}).scheduled


# --- what cannot be


def test_the_preset_measures_nothing_and_brings_its_executor() -> None:
    with initialize_config_module("foretune.conf", version_base="1.3"):
        found, asked = (
            from_hydra(compose("tune", overrides=["search=no_measurement", *more]), TuneConfig)
            for more in ([], ["executor=local"])
        )
    assert (found.search.measure, found.search.rounds, found.executor.kind) == (False, 1, "none")
    assert (asked.search.measure, asked.executor.kind) == (False, "local")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"search": OneShotConfig()}, "executor=none: candidates cannot be measured"),
        ({"executor": ExecutorConfig("dry_run")}, "executor=dry_run has nothing to measure"),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(TuneConfigError, match=message):
        config(tmp_path, "cpu", **changes)


def test_without_a_model_there_is_nothing_to_choose_by(tmp_path: Path) -> None:
    with pytest.raises(NoCostModelError, match="without a cost model there is nothing to choose by"):
        finished(config(tmp_path, None))


def test_a_library_for_another_architecture_asks_for_its_linker_first(
    checkpoint: str, tmp_path: Path
) -> None:
    target = {"kind": "llvm", "mtriple": "riscv64-linux-gnu", "num-cores": 2}
    with pytest.raises(LinkerError, match=r"mtriple=riscv64-linux-gnu .* no riscv64-linux-gnu-g\+\+"):
        finished(config(tmp_path, checkpoint, target=target, export=tmp_path / "net.so"))
    assert not (tmp_path / "database").exists()


@pytest.mark.parametrize("rounds", [{"rounds": 2}, {"extra_rounds": 1}])
def test_there_is_one_round_without_measurements(rounds: dict[str, int]) -> None:
    with pytest.raises(OneShotConfigError, match=r"search\.measure=false"):
        replace(ONCE, **rounds)


def test_a_dataset_needs_a_device() -> None:
    with pytest.raises(ExecutorConfigError, match="executor=none: nothing is measured without a device"):
        make_executor(NONE, parse_target("llvm"), MeasureConfig())
