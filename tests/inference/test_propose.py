"""Programs that a search proposes, written for a dataset."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset import generate
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.hardware import UnfitHardwareError
from foretune.dataset.measure.worker.process import WorkerLostError
from foretune.dataset.records.exchange import RECORD_FILE, read_database
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.sampling.programs import EvolutionaryConfig, ProgramSamplingConfig
from foretune.inference.database.proposal_folder import TAKEN_FILE, NoProposalsError, ProposalFolder
from foretune.inference.propose import ProposeConfig, ProposeConfigError, chosen_tasks, run, searched
from foretune.inference.search.candidate import Candidate, record_json
from foretune.inference.search.config import OneShotConfig
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.workers.messages import RoundReply
from foretune.models.checkpoints.card import SplitSummary
from foretune.models.checkpoints.checkpoint import load_checkpoint
from rich.console import Console
from support.checkpoints import candidates_of
from support.commands import status_of
from support.fake_executor import FakeExecutor

TASKS = [to_task(Dense(rows=rows, in_features=32, out_features=64)) for rows in (16, 8, 32)]
TARGET = {"kind": "llvm", "num-cores": 1}
SEARCH = OneShotConfig(
    DraftingConfig(population=64, generations=1, keep=8),
    rounds=1,
    top_k=4,
    replay_factor=1,
    random_share=0.25,
    processes=0,
)


@pytest.fixture
def dataset(tmp_path):
    store = RecordStore(tmp_path / "known")
    with store.writing():
        store.append_tasks([task_row(task) for task in TASKS])
    return store.folder


def propose(dataset, database, **changes):
    console = Console(file=io.StringIO())
    config = ProposeConfig(dataset, database, **{"target": TARGET, "search": SEARCH, **changes})
    return run(config, console), console.file.getvalue()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def proposed(dataset, tmp_path):
    """The database of a run over two of three tasks, with what it said."""
    return propose(dataset, tmp_path / "proposals", tasks=2)


def test_programs_of_so_many_tasks_are_written_unmeasured(proposed):
    summary, said = proposed
    records = read_database(summary.folder)
    assert (summary.tasks, summary.programs, summary.known, summary.without) == (2, 8, 0, 0)
    assert len(records) == len({(record.mod, record.trace) for record in records}) == 8
    assert {record.run_secs for record in records} == {()}
    assert [line["programs"] for line in lines(summary.folder / TAKEN_FILE)] == [4, 4]
    assert f"8 programs of 2 tasks written to {summary.folder}" in said
    assert f"program_sampling.database={summary.folder}" in said


def test_they_are_measured_into_a_dataset(proposed, tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "make_executor", lambda *arguments: FakeExecutor())
    config = GenerateConfig(
        dataset=tmp_path / "measured",
        target=TARGET,
        self_check=False,
        datasheet=False,
        samplers=0,
        program_sampling=ProgramSamplingConfig(sampler="database", database=proposed[0].folder),
    )
    assert generate.run(config, Console(file=io.StringIO())).measured == 8
    records = RecordStore(tmp_path / "measured").records()
    hashes = {line["workload"] for line in lines(proposed[0].folder / TAKEN_FILE)}
    assert {record.workload_hash for record in records} == hashes <= {task.workload_hash for task in TASKS}
    assert all(record.failure is None for record in records)


def test_the_same_command_goes_on_where_a_kill_left_it(proposed, dataset):
    folder = proposed[0].folder
    with (folder / TAKEN_FILE).open("a") as file:
        file.write('{"workload": "0b')
    with (folder / RECORD_FILE).open("a") as file:
        file.write("[0, [[")
    summary, said = propose(dataset, folder.parent, tasks=3)
    assert (summary.tasks, summary.known) == (1, 2)
    assert "2 tasks were searched before" in said
    assert len(read_database(folder)) == 12
    assert len(lines(folder / TAKEN_FILE)) == 3


def test_two_processes_keep_each_program_under_its_own_task(tmp_path):
    target = parse_target(TARGET)
    first, second = (ProposalFolder(tmp_path / "proposals", target) for _ in range(2))
    for folder, task in ((first, TASKS[0]), (second, TASKS[1]), (first, TASKS[2])):
        _, (program, *_) = candidates_of(task)
        folder.add(task, [record_json(program.sch.trace)])
    again = ProposalFolder(tmp_path / "proposals", target)
    assert again.searched == {task.workload_hash for task in TASKS}
    found = [(number, content[3][0][2][0]) for number, content in lines(again.folder / RECORD_FILE)]
    assert found == [(0, 16), (1, 8), (2, 32)]  # tasks with the rows of their first arguments
    assert len(read_database(again.folder)) == 3


def test_a_database_of_measured_programs_is_left_alone(dataset, tmp_path):
    summary, _ = propose(dataset, tmp_path / "proposals", tasks=1)
    (summary.folder / TAKEN_FILE).unlink()
    before = (summary.folder / RECORD_FILE).read_bytes()
    with pytest.raises(NoProposalsError, match="records that are not proposals"):
        propose(dataset, tmp_path / "proposals")
    assert (summary.folder / RECORD_FILE).read_bytes() == before


def test_what_is_held_out_for_tests_is_not_searched():
    held_out = [TASKS[1].workload_hash]
    for seed in range(5):
        assert TASKS[1] not in chosen_tasks(TASKS, held_out, 3, seed)
    assert len(chosen_tasks(TASKS, held_out, 3, 0)) == 2
    assert chosen_tasks(TASKS, [], 2, 1) == chosen_tasks(TASKS, [], 2, 1)
    assert len({tuple(task.name for task in chosen_tasks(TASKS, [], 3, seed)) for seed in range(9)}) > 1


def test_a_dataset_of_held_out_tasks_alone_is_refused(dataset, tmp_path, monkeypatch):
    checkpoint = load_checkpoint("cpu")
    tests = [task.workload_hash for task in TASKS]
    object.__setattr__(checkpoint.card, "split", SplitSummary({}, [], [], tests))
    monkeypatch.setattr("foretune.inference.propose.load_checkpoint", lambda *_, **__: checkpoint)
    with pytest.raises(ProposeConfigError, match="holds out all of its tasks"):
        propose(dataset, tmp_path / "proposals")


class DyingSearcher:
    """Dies of one task and proposes a program of any other."""

    connection = None

    def __init__(self, of):
        self._of = of

    def ask(self, request):
        self._name = request.task.name

    def reply(self):
        if self._name == self._of:
            raise WorkerLostError(FailureKind.BUILD_TIMEOUT, "killed")
        return RoundReply((Candidate("trace", 1.0, record=self._name),))


def test_a_search_that_dies_costs_its_own_task_alone():
    found = {task.name: reply for task, reply in searched(TASKS, [DyingSearcher(TASKS[0].name)])}
    assert [len(found[task.name].proposals) for task in TASKS] == [0, 1, 1]
    assert [found[task.name].reason for task in TASKS] == ["the search failed: killed", "", ""]


def test_a_search_that_failed_is_told_and_tried_again(dataset, tmp_path, monkeypatch):
    class Failing:
        """Fails with one task and has nothing to tune in the others."""

        connection = None

        def ask(self, request):
            fails = request.task.name == TASKS[0].name
            self._reply = RoundReply(error="no weights") if fails else RoundReply(nothing_to_tune=True)

        def reply(self):
            return self._reply

        def close(self):
            pass

    with monkeypatch.context() as patched:
        patched.setattr("foretune.inference.propose.start_searchers", lambda *_, **__: [Failing()])
        summary, said = propose(dataset, tmp_path / "proposals")
    assert (summary.tasks, summary.without, summary.failed) == (2, 2, 1)
    assert f"1 task failed, first {TASKS[0].name}: the search failed: no weights" in said
    assert TASKS[0].workload_hash not in {line["workload"] for line in lines(summary.folder / TAKEN_FILE)}
    summary, _ = propose(dataset, tmp_path / "proposals")
    assert (summary.tasks, summary.programs, summary.known, summary.failed) == (1, 4, 2, 0)


@pytest.mark.parametrize("name", ["rounds", "replay_factor"])
def test_what_follows_measurements_is_refused(dataset, tmp_path, name):
    with pytest.raises(ProposeConfigError, match=rf"search\.{name}=2"):
        propose(dataset, tmp_path, search=replace(SEARCH, **{name: 2}))


def test_no_tasks_are_refused(dataset, tmp_path):
    with pytest.raises(ProposeConfigError, match="tasks=0"):
        propose(dataset, tmp_path, tasks=0)


def test_programs_for_a_gpu_need_none(dataset, tmp_path):
    search = replace(SEARCH, strategy=EvolutionaryConfig(population_size=8, generations=1))
    summary, _ = propose(
        dataset, tmp_path / "new", target="nvidia/nvidia-a100", hardware="a100", tasks=1, search=search
    )
    assert summary.programs == 4
    (target,) = {record.target for record in read_database(summary.folder)}
    assert json.loads(target)["kind"] == "cuda"


def test_a_device_that_does_not_run_the_target_is_refused(dataset, tmp_path):
    with pytest.raises(UnfitHardwareError, match="cannot run programs of the target"):
        propose(dataset, tmp_path / "new", hardware="a100")
    assert not (tmp_path / "new").exists()


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert status_of("propose", f"dataset={tmp_path / 'none'}") == 2
    assert "has no dataset" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()
