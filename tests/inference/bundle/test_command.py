"""`foretune bundle`: what it prints and how it ends, and a network that a second machine need not tune."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from foretune.cli import main
from foretune.inference import tune_network
from foretune.inference.bundle.format import write_bundle
from foretune.inference.database.tuning_database import MissingScheduleError
from foretune.inference.search.config import OneShotConfig, StopConfig
from rich.console import Console
from support.bundles import bundle_of, make_folder


def status_of(*arguments):
    """Exit status of the command."""
    try:
        main(["bundle", *map(str, arguments)])
    except SystemExit as exit:
        return exit.code
    return 0


@pytest.fixture
def bundle(tmp_path):
    write_bundle(tmp_path / "a.zip", bundle_of({3: {"x": 2e-3, "y": 1e-3}, 5: {"x": 4e-3}}, network="net"))
    return tmp_path / "a.zip"


def test_show_prints_what_a_bundle_holds(bundle, capsys):
    assert status_of("show", bundle) == 0
    told = " ".join(capsys.readouterr().out.split())
    for part in (
        *("3 of 2 tasks", "net", '{"kind": "llvm", "num-cores": 2}', "fake device, 2 cores, hardware_id"),
        *("foretune=0.1.0, tvm=0.27.0.post1, schema 4", "2026-11-25T00:00:00+00:00", "SHA-256"),
        *("dense_3 dense 1.00 ms 2", "dense_5 dense 4.00 ms 1"),
    ):
        assert part in told
    assert status_of("show", bundle, "json=true") == 0
    assert json.loads(capsys.readouterr().out)["tasks"][0]["settings"] == {"rows": 3}


def test_show_counts_predicted_schedules_templates_and_kernels(tmp_path, capsys):
    bundle = bundle_of({3: {"x": 2e-3}})
    template = '{"workload": "00", "latency_s": 0.001, "title": "product", "module": ""}'
    kernel = '{"kernel": "0123456789abcdef", "latency_s": 0.001, "tvm": "0.27.0", "version": 1}'
    path = tmp_path / "b.zip"
    further = {"predicted": bundle.records, "templates": [template, template], "kernels": [kernel]}
    write_bundle(path, replace(bundle, **further))
    assert status_of("show", path) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "predicted 1 predicted schedule" in told and "templates 2 GPU templates" in told
    assert "dynamic shapes 1 measured kernel" in told


@pytest.mark.parametrize("command", ["show", "import"])
def test_a_damaged_bundle_is_one_error(bundle, command, capsys, tmp_path):
    bundle.write_bytes(bundle.read_bytes()[:-1])
    assert status_of(command, bundle, *([f"database={tmp_path / 'db'}"] if command == "import" else [])) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: bundle={bundle}: truncated or damaged") and error.count("\n") == 1
    assert not (tmp_path / "db").exists()


def test_an_export_without_schedules_is_one_error(tmp_path, capsys):
    assert status_of("export", tmp_path / "a.zip", f"database={tmp_path}") == 2
    assert "holds no schedules" in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_named(tmp_path, capsys):
    make_folder(tmp_path / "db" / "llvm-1", {1: {"x": 1e-3}})
    assert status_of("export", tmp_path / "a.zip", f"database={tmp_path / 'db'}", "folder=llvm-2") == 2
    assert "choose one of llvm-1" in capsys.readouterr().err


SEARCH = OneShotConfig(
    {"name": "evolutionary", "population_size": 8, "generations": 0},
    *(4, 0.5),
    top_k=4,
    stop=StopConfig(minimum=1),
    processes=0,
    finalists=0,
)


@pytest.mark.slow
def test_a_second_machine_of_the_same_kind_tunes_a_network_without_a_measurement(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"

    def tune(database, **settings):
        return tune_network(
            "support.networks:Dense",
            inputs=[[64, 256]],
            output=tmp_path / "report",
            database=database,
            search=SEARCH,
            timing_repeats=1,
            rivals=[],
            untuned_limit_s=1e-9,
            workers=1,
            console=Console(quiet=True),
            **settings,
        )

    with pytest.raises(MissingScheduleError, match=r"task .* has no schedule in .*second"):
        tune(second, require_database=True, checkpoint=None)
    tuned = tune(first, checkpoint=None)
    network = ("network=support.networks:Dense", "inputs=[[64,256]]")
    assert status_of("export", "a.zip", f"database={first}", *network) == 0
    assert status_of("import", "a.zip", f"database={second}") == 0
    told = capsys.readouterr().out
    assert "1 added" in told and "left out" not in told
    shutil.rmtree(first)
    again = tune(second, require_database=True, checkpoint=None)
    assert [task.candidates_measured for task in again.tasks] == [0] * len(tuned.tasks)
    assert [task.tuned_latency_s for task in again.tasks] == [task.tuned_latency_s for task in tuned.tasks]
    assert all(task.from_database for task in again.tasks)
    assert again.outputs_match
