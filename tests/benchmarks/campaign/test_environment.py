"""The environment of a CUDA machine is made offline, on top of what the machine has."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.campaign import environment
from benchmarks.campaign.environment import CUDA_RUNTIME, cuda_environment, make_environment
from benchmarks.campaign.limits import CampaignError
from benchmarks.campaign.wheels import pack


def make_wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/RECORD", "")
        wheel.writestr(f"bundled_{name}.py", f"version = {version!r}\n")


@pytest.fixture
def small_bundle(tmp_path, monkeypatch):
    """A bundle of made-up packages, and a checkout that needs them."""
    wheels, checkout = tmp_path / "wheels", tmp_path / "checkout"
    wheels.mkdir()
    monkeypatch.setattr(environment, "CUDA_WHEELS", ("cuda-wheel>=13",))
    (checkout / ".typing").mkdir(parents=True)
    (checkout / ".typing" / "example.py").write_text("text = 'of the checkout'\n")
    for name, version in (("needed", "2.0"), ("extra", "3.0"), ("cuda_wheel", "13.5")):
        make_wheel(wheels, name, version)
    (checkout / "pyproject.toml").write_text(
        '[project]\nname = "example"\nversion = "1.0"\ndependencies = ["needed>=2", "torch"]\n'
        '[project.optional-dependencies]\nxgboost = ["extra"]\nother = ["nowhere"]\n'
    )
    pack(sorted(wheels.iterdir()), tmp_path / "bundle", 300_000)
    return tmp_path / "bundle", checkout


def test_an_environment_is_made_offline_on_top_of_this_machine(small_bundle, tmp_path, monkeypatch):
    bundle, checkout = small_bundle
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")
    folder = tmp_path / "environment"
    python = make_environment(bundle, folder, checkout)
    code = (
        "import bundled_needed, bundled_extra, example, sys; from importlib.metadata import version; "
        "print(bundled_needed.version, version('example'), version('torch') != '', sys.prefix, example.text)"
    )
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert told.stdout.split(maxsplit=4) == ["2.0", "1.0", "True", str(folder), "of the checkout\n"]

    # The second call finds it made.
    (folder / "mark").touch()
    assert make_environment(bundle, folder, checkout) == python
    assert (folder / "mark").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [("needed>=3", r"needed>=3 is required, but 2\.0 is installed"), ("nowhere-to-be-found", "is missing")],
)
def test_a_bundle_that_lacks_a_package_is_told(small_bundle, tmp_path, line, told):
    bundle, checkout = small_bundle
    table = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(table.replace("needed>=2", line))
    with pytest.raises(CampaignError, match=told):
        make_environment(bundle, tmp_path / "environment", checkout)


def test_a_bundle_without_the_cuda_wheels_is_told(small_bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "CUDA_WHEELS", ("cuda-wheel>=14",))
    with pytest.raises(CampaignError, match=r"cuda-wheel>=14; extra == \"campaign\" is required, but 13\.5"):
        make_environment(small_bundle[0], tmp_path / "environment", small_bundle[1])


def test_a_folder_with_other_files_is_not_replaced(small_bundle, tmp_path):
    bundle, checkout = small_bundle
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("keep me")
    with pytest.raises(CampaignError, match="is not an environment"):
        make_environment(bundle, folder, checkout)
    assert (folder / "letter.txt").read_text() == "keep me"


def test_tvm_finds_the_cuda_runtime_of_the_environment(tmp_path, monkeypatch):
    library = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib" / CUDA_RUNTIME
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "no-toolkit"))
    environment = cuda_environment(tmp_path / "bin" / "python")
    assert environment["LD_LIBRARY_PATH"] == f"{library.parent}:/somewhere"


class Driver:
    """Questions of the campaign to NVIDIA's driver."""

    def __init__(self, status: int, version: int) -> None:
        self.cuInit = lambda flags: status
        self._version = version

    def cuDriverGetVersion(self, pointer) -> int:
        pointer._obj.value = self._version
        return 0


@pytest.mark.parametrize(
    ("driver", "told"),
    [
        (Driver(100, 13000), r"finds no GPU \(cuInit: error 100\)"),
        (Driver(0, 12080), r"supports CUDA 12\.8, but TVM requires 13\.0: use a machine"),
    ],
)
def test_a_driver_that_is_of_no_use_is_told_at_once(monkeypatch, driver, told):
    monkeypatch.setattr(environment.ctypes, "CDLL", lambda name: driver)
    with pytest.raises(CampaignError, match=told):
        environment.check_machine(dry_run=False)


def test_a_driver_of_today_is_used(monkeypatch):
    monkeypatch.setattr(environment.ctypes, "CDLL", lambda name: Driver(0, 13010))
    environment.check_machine(dry_run=False)


def test_a_machine_without_driver_is_told_at_once(monkeypatch):
    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(environment.ctypes, "CDLL", no_library)
    environment.check_machine(dry_run=True)
    with pytest.raises(CampaignError, match="this machine has no NVIDIA driver"):
        environment.check_machine(dry_run=False)
