"""Tests of records of whole networks: their tasks, and the table of calls."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from foretune.compiler.networks import UnknownNetworkError, extract_tasks, load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.configuration import from_hydra
from foretune.dataset import generate
from foretune.dataset.generation.config import GenerateConfig, GenerateConfigError
from foretune.dataset.generation.network_tasks import NetworkRequest, NetworkRequestError, tasks_of_networks
from foretune.dataset.records.datasheet.content import networks_section, sections
from foretune.dataset.records.datasheet.overview import read_overview
from foretune.dataset.records.merge import merge_datasets
from foretune.dataset.records.network_weights import (
    NetworksFileError,
    merged_networks,
    read_networks,
    write_networks,
)
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.verification import problems
from foretune.dataset.sampling.programs import ProgramSamplingConfig
from hydra import compose, initialize_config_module
from rich.console import Console
from support.fake_executor import FakeExecutor

RESIDUAL = {"network": "support.networks:Residual", "inputs": [[1, 8, 6, 6]]}
LLVM = parse_target("llvm")


@pytest.fixture(scope="module")
def residual():
    """Tasks of the network as foretune tune extracts them."""
    network = load_network(RESIDUAL["network"], inputs=RESIDUAL["inputs"])
    return extract_tasks(to_relax(network, LLVM), LLVM, network.name)


def run(monkeypatch, dataset, networks, **changes):
    monkeypatch.setattr(generate, "make_executor", lambda *arguments: FakeExecutor())
    config = GenerateConfig(
        dataset=dataset,
        networks=networks,
        records_per_task=2,
        per_round=2,
        self_check=False,
        datasheet=False,
        program_sampling=ProgramSamplingConfig(sampler="random"),
        samplers=0,
        **changes,
    )
    return generate.run(config, Console(file=io.StringIO()))


def test_the_tasks_are_those_that_tuning_extracts_each_once(residual):
    batch_2 = {**RESIDUAL, "inputs": [[2, 8, 6, 6]], "name": "larger"}
    tasks, networks = tasks_of_networks([RESIDUAL, batch_2, {**RESIDUAL, "name": "again"}], LLVM)
    calls = {task.workload_hash: task.weight for task in residual}
    assert 2 in calls.values()  # two equal blocks
    assert networks["Residual"] == networks["again"] == calls
    assert networks["larger"].keys().isdisjoint(calls)
    hashes = [task.workload_hash for task in tasks]
    assert len(set(hashes)) == len(hashes) == len(networks["larger"]) + len(calls)
    assert {task.source for task in tasks} == {"network:Residual", "network:larger"}


def test_a_run_measures_them_and_tells_their_calls(monkeypatch, tmp_path, residual):
    folder = tmp_path / "set"
    # `tasks` limits only sampled tasks.
    summary = run(monkeypatch, folder, [RESIDUAL], tasks=1)
    store = RecordStore(folder)
    rows = {row.workload_hash: row for row in store.tasks()}
    assert {row.source for row in rows.values()} == {"network:Residual"}
    assert read_networks(folder) == {"Residual": {task.workload_hash: task.weight for task in residual}}
    measured = {record.workload_hash for record in store.records()}
    assert len(measured) + len(summary.without_space) == len(rows) == len(residual) > 1
    # The same command measures nothing again, and another network is added.
    assert run(monkeypatch, folder, [RESIDUAL]).measured == 0
    more = {"network": "support.networks:SharedConvolution", "inputs": [[1, 2, 4, 4]]}
    assert run(monkeypatch, folder, [more]).measured > 0
    assert set(read_networks(folder)) == {"Residual", "SharedConvolution"}


def test_a_name_stands_for_one_network(monkeypatch, tmp_path):
    table = {"Residual": {"0123456789abcdef": 3}}
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "networks.json").write_text(json.dumps(table))
    with pytest.raises(NetworksFileError, match="network Residual has other tasks there"):
        run(monkeypatch, folder, [RESIDUAL])
    assert read_networks(folder) == table
    with pytest.raises(NetworkRequestError, match="two entries have the name Residual"):
        tasks_of_networks([RESIDUAL, RESIDUAL], LLVM)


def test_what_is_no_network_is_refused(tmp_path):
    with pytest.raises(UnknownNetworkError, match=r"did you mean resnet18\? Known by name: alexnet"):
        tasks_of_networks(["resnet81"], LLVM)
    for entry in (3, {"name": "a"}, {"network": "resnet18", "size": 3}, {"network": "a", "batch": "2"}):
        with pytest.raises(NetworkRequestError, match="is not a network"):
            NetworkRequest.from_entry(entry)
    for field in ("tasks_from", "program_sampling.database"):
        given = (
            {"tasks_from": tmp_path}
            if field == "tasks_from"
            else {"program_sampling": ProgramSamplingConfig(sampler="database", database=tmp_path)}
        )
        with pytest.raises(GenerateConfigError, match=f"networks=.* and {field}="):
            GenerateConfig(dataset=tmp_path, networks=["resnet18"], **given)


def test_networks_are_given_on_the_command_line():
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = compose(
            "generate",
            [
                "dataset=d",
                "networks=[resnet18,nets/a.onnx,{network: a.b:Net, inputs: [[1,3,8,8]], kwargs: {width: 4}}]",
            ],
        )
    requests = [NetworkRequest.from_entry(entry) for entry in from_hydra(composed, GenerateConfig).networks]
    assert [request.network for request in requests] == ["resnet18", "nets/a.onnx", "a.b:Net"]
    assert requests[2] == NetworkRequest("a.b:Net", inputs=[[1, 3, 8, 8]], kwargs={"width": 4})


def stored(folder, name, networks):
    """Dataset of one task without records, with a table of networks."""
    store = RecordStore(folder)
    row = TaskRow(name * 16, f"dense_{name}", "dense", "{}", "network:n", 1.0, "")
    with store.writing():
        store.append_tasks([row])
        if networks:
            write_networks(store, networks)
    return store


def test_a_merge_unites_the_networks(tmp_path):
    first = stored(tmp_path / "1", "a", {"x": {"a" * 16: 2}})
    second = stored(tmp_path / "2", "b", {"x": {"a" * 16: 2}, "y": {"b" * 16: 1, "c" * 16: 3}})
    target = stored(tmp_path / "3", "c", {})
    merge_datasets([first, second], target)
    assert read_networks(target.folder) == merged_networks([read_networks(second.folder)], target.folder)
    other = stored(tmp_path / "4", "d", {"y": {"d" * 16: 1}})
    with pytest.raises(NetworksFileError, match="network y has other tasks"):
        merge_datasets([other], target)
    assert {row.name for row in target.tasks()} == {"dense_a", "dense_b", "dense_c"}


def test_verify_reads_the_table(tmp_path):
    store = stored(tmp_path / "1", "a", {"x": {"a" * 16: 3}})
    assert not list(problems(store))
    (store.folder / "networks.json").write_text('{"x": {}}')
    (problem,) = problems(store)
    assert "x needs tasks" in problem


def test_inspect_names_the_networks(tmp_path):
    store = stored(tmp_path / "1", "a", {"x": {"a" * 16: 3, "b" * 16: 1}})
    overview = read_overview(store)
    tasks = overview.tasks.assign(records=5, valid=4)
    section = networks_section(replace(overview, tasks=tasks))
    # One of two tasks has records; x calls it 3 of 4 times.
    assert section.rows == [["x", "2", "1", "75%", "4"]]
    assert "Networks" in [section.title for section in sections(overview)]
