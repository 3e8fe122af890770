"""The campaign script: the environment is made offline, a run ends in time."""

from __future__ import annotations

import ctypes
import ensurepip
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from foretune.dataset.operators import Dense, to_task
from foretune.dataset.program_sampling import DatabaseTasks
from foretune.dataset.replay import replay
from foretune.dataset.store import RecordStore
from foretune.dataset.stored_tasks import task_row
from foretune.dataset.tvm_compat import make_tune_context, parse_target
from foretune.inference.proposal_folder import TAKEN_FILE
from support.paths import ROOT

from benchmarks.campaign_environment import CUDA_RUNTIME
from benchmarks.wheel_bundle import pack

SCRIPT = ROOT / "benchmarks" / "gpu_campaign.py"


def _load():
    spec = importlib.util.spec_from_file_location("gpu_campaign", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_campaign"] = module
    spec.loader.exec_module(module)
    return module


campaign = _load()


# -- the environment

BACKEND = """
import zipfile
def get_requires_for_build_editable(settings=None): return []
def build_editable(folder, settings=None, metadata=None):
    name = "example-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("example-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: example\\n"
            "Version: 1.0\\nRequires-Dist: needed\\nRequires-Dist: extra; extra == 'xgboost'\\n"
            "Provides-Extra: xgboost\\n")
        wheel.writestr("example-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("example-1.0.dist-info/RECORD", "")
        wheel.writestr("example.py", "text = 'editable'")
    return name
"""


def make_wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        wheel.writestr(f"bundled_{name}.py", f"version = {version!r}\n")


@pytest.fixture
def small_bundle(tmp_path):
    """A bundle of made-up packages and the real pip, and a checkout that needs them."""
    wheels, checkout = tmp_path / "wheels", tmp_path / "checkout"
    wheels.mkdir()
    checkout.mkdir()
    for name, version in (
        ("needed", "2.0"),
        ("extra", "3.0"),
        ("setuptools", "990.0"),
        ("nvidia_cuda_runtime", "13.0"),
    ):
        make_wheel(wheels, name, version)
    pips = list((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if not pips:
        pytest.skip("this Python has no copy of pip as a wheel")
    (wheels / pips[0].name).write_bytes(pips[0].read_bytes())
    (checkout / "backend.py").write_text(BACKEND)
    (checkout / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "example"\nversion = "1.0"\n'
    )
    pack(sorted(wheels.iterdir()), tmp_path / "bundle", 300_000)
    return tmp_path / "bundle", checkout


def test_an_environment_is_made_offline_on_top_of_this_machine(small_bundle, tmp_path, monkeypatch):
    bundle, checkout = small_bundle
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")
    folder = tmp_path / "environment"
    python = campaign.make_environment(bundle, folder, checkout)
    code = (
        "import bundled_needed, bundled_extra, bundled_setuptools, example, torch, sys; "
        "print(bundled_needed.version, example.text, torch.__version__ != '', sys.prefix)"
    )
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["2.0", "editable", "True", str(folder)]

    # The second call finds it made.
    (folder / "mark").touch()
    assert campaign.make_environment(bundle, folder, checkout) == python
    assert (folder / "mark").exists()


def test_a_folder_with_other_files_is_not_replaced(small_bundle, tmp_path):
    bundle, checkout = small_bundle
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("keep me")
    with pytest.raises(campaign.CampaignError, match="is no environment"):
        campaign.make_environment(bundle, folder, checkout)
    assert (folder / "letter.txt").read_text() == "keep me"


def test_tvm_finds_the_cuda_runtime_of_the_environment(tmp_path, monkeypatch):
    library = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib" / CUDA_RUNTIME
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "no-toolkit"))
    environment = campaign.cuda_environment(tmp_path / "bin" / "python")
    assert environment["LD_LIBRARY_PATH"] == f"{library.parent}:/somewhere"


# -- the end of a run

CHILD = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(number, frame):
    (folder / "stopped").touch()
    sys.exit(7)
signal.signal(signal.SIGINT, stop if sys.argv[2] == "polite" else signal.SIG_IGN)
(folder / "started").touch()
time.sleep(60)
"""


def start(folder: Path, manner: str, deadline_s: float) -> int:
    command = [sys.executable, "-c", CHILD, str(folder), manner]
    return campaign.run_until(command, dict(os.environ), time.monotonic() + deadline_s)


def when_started(folder: Path, action) -> threading.Thread:
    def wait_and_act():
        while not (folder / "started").exists():
            time.sleep(0.02)
        action()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_a_run_is_told_to_stop_at_the_deadline(tmp_path):
    deadline_s = 6.0
    begin = time.monotonic()
    assert start(tmp_path, "polite", deadline_s) == 7
    assert (tmp_path / "stopped").exists()
    assert deadline_s <= time.monotonic() - begin < 30


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_stops_when_the_script_is_told_to(tmp_path, number):
    handler = signal.getsignal(number)
    thread = when_started(tmp_path, lambda: os.kill(os.getpid(), number))
    assert start(tmp_path, "polite", 50) == 7
    thread.join()
    assert (tmp_path / "stopped").exists()
    assert signal.getsignal(number) is handler


def test_a_run_that_does_not_stop_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "PATIENCE_S", 0.5)
    thread = when_started(tmp_path, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert start(tmp_path, "stubborn", 50) == -signal.SIGKILL
    thread.join()


def test_a_machine_without_driver_is_told_at_once(tmp_path, monkeypatch, capsys):
    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert campaign.main(["run", "--dataset", str(tmp_path / "d"), "--minutes", "5"]) == 2
    assert capsys.readouterr().err.startswith("error: this machine has no NVIDIA driver")


def test_too_few_minutes_are_told(tmp_path, capsys):
    words = ["run", "--dry-run", "--dataset", str(tmp_path / "d"), "--minutes", "0.4"]
    assert campaign.main(words) == 2
    assert "nothing is left to generate in" in capsys.readouterr().err


# -- all steps but the GPU

TINY = [
    *("tasks=1", "records_per_task=6", "per_round=6", "workers=1", "task_sampling.max_flops=2e7"),
    *("program_sampling.sampler=random", "task_sampling.operators={dense: 1.0}"),
]


def test_a_network_is_tuned_within_the_time_that_is_left(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(campaign, "run_until", lambda command, environment, deadline: asked.append(command))
    words = ["tune", "--minutes", "9", "--dry-run", "network=resnet18", "search=templates"]
    assert campaign.main(words) == 0
    ((*begun, budget, network, search),) = asked
    target = ["target=nvidia/nvidia-h100", "executor=dry_run"]
    assert begun == [sys.executable, "-m", "foretune", "tune", *target]
    assert budget.startswith("budget_s=") and 440 <= float(budget.removeprefix("budget_s=")) <= 450
    assert [network, search] == ["network=resnet18", "search=templates"]
    assert campaign.main(["tune", "--minutes", "1.5", "--dry-run", "network=resnet18"]) == 2
    assert "nothing is left to search in" in capsys.readouterr().err


def test_templates_are_timed_in_the_environment_until_the_deadline(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(campaign, "run_until", lambda command, environment, deadline: asked.append(command))
    words = ["templates", "--minutes", "2", "--dry-run", "--", "--count", "3"]
    assert campaign.main(words) == 0
    assert asked == [
        [sys.executable, "-m", "benchmarks.gpu_templates", "--compile-only", "--count", "3"],
    ]


def test_words_of_a_study_come_before_the_overrides_of_its_command():
    networks, models = campaign.STUDIES["networks"], campaign.STUDIES["models"]
    words = ["--networks", "resnet18", "--", "budget_s=150"]
    assert networks.arguments(words, dry_run=False) == ["--target", "cuda", *words]
    dry = networks.arguments(words, dry_run=True)
    assert dry[:2] == ["--target", "nvidia/nvidia-h100"] and dry[-2:] == ["budget_s=150", "executor=dry_run"]
    assert networks.arguments([], dry_run=True)[-2:] == ["--", "executor=dry_run"]
    on_gpu = models.arguments(["--models", "lstm"], dry_run=False)
    assert on_gpu[2:5] == ["--models", "lstm", "--"] and on_gpu[5] == "++train.trainer.accelerator=gpu"


@pytest.mark.slow
def test_a_dry_run_goes_through_every_step(tmp_path):
    dataset = tmp_path / "dataset"
    words = [sys.executable, SCRIPT, "run", "--dry-run", "--dataset", dataset, "--minutes", "5", *TINY]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    records = RecordStore(dataset).records()
    assert len(records) >= 6
    assert all(record.simulated for record in records if record.failure is None)
    assert {record.target for record in records if "sm_90" in record.target}
    assert "records per minute" in done.stdout
    assert "self-check and generation: took" in done.stdout
    assert len(list(dataset.glob("*.parquet"))) == 2


def test_programs_are_drawn_for_another_machine_and_a_second_call_goes_on(tmp_path, capsys):
    store = RecordStore(tmp_path / "tasks")
    with store.writing():
        store.append_tasks(
            [task_row(to_task(Dense(rows=64, in_features=64, out_features=width))) for width in (64, 96)]
        )
    words = [
        "draw",
        "--tasks",
        str(tmp_path / "tasks"),
        "--database",
        str(tmp_path / "drawn"),
        "--programs",
        "2",
    ]
    assert campaign.main(words) == 0
    assert "drew 4 programs" in capsys.readouterr().out
    found = DatabaseTasks(tmp_path / "drawn")
    assert [len(traces) for traces in found.traces.values()] == [2, 2]
    context = make_tune_context(found.tasks[0].mod, parse_target(campaign.DRY_RUN_TARGET), seed=0)
    assert all(replay(context, trace) for trace in found.traces[found.tasks[0].workload_hash])
    assert campaign.main(words) == 0
    assert "drew 0 programs" in capsys.readouterr().out
    (tmp_path / "drawn" / TAKEN_FILE).unlink()  # as a database of measured programs
    assert campaign.main(words) == 2
    assert "records that are not proposals" in capsys.readouterr().err
