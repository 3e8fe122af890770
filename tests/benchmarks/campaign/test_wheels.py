"""Wheels for a machine without a package index: what is carried arrives whole."""

from __future__ import annotations

import argparse
import io
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.campaign import wheels as wheel_bundle
from benchmarks.campaign.limits import CampaignError


def make_files(folder: Path, sizes: list[int]) -> list[Path]:
    """Wheels of one module each, whose content LZMA cannot shorten."""
    folder.mkdir()
    files = [folder / f"package{number}-1.0-py3-none-any.whl" for number in range(len(sizes))]
    for number, (path, size) in enumerate(zip(files, sizes, strict=True)):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(f"package{number}.py", random.Random(number).randbytes(size))
    return files


def contents(wheels: list[Path]) -> dict[str, bytes]:
    """Files of all wheels by name."""
    opened = [zipfile.ZipFile(path) for path in wheels]
    return {name: wheel.read(name) for wheel in opened for name in wheel.namelist()}


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=8), st.integers(1, 300))
def test_what_is_carried_arrives_whole(tmp_path_factory, sizes, part_size):
    folder = tmp_path_factory.mktemp("bundle")
    files = make_files(folder / "wheels", sizes)
    wheel_bundle.pack(files, folder / "out", part_size)
    loads = sorted((folder / "out").iterdir())
    for load in loads:
        pieces = [path for path in load.iterdir() if path.name != wheel_bundle.MANIFEST]
        assert 0 < sum(path.stat().st_size for path in pieces) <= part_size
    wheel_bundle.unpack(folder / "out", folder / "in")
    assert {path.name: path.read_bytes() for path in (folder / "in").iterdir()} == contents(files)


@pytest.fixture
def carried(tmp_path):
    wheel_bundle.pack(make_files(tmp_path / "wheels", [1000, 30]), tmp_path / "bundle", 600)
    return tmp_path / "bundle"


def test_loads_may_lie_in_one_folder(carried, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in carried.rglob("*"):
        if path.is_file():
            path.rename(flat / path.name)
    wheel_bundle.unpack(flat, tmp_path / "in")
    assert sorted(path.stat().st_size for path in (tmp_path / "in").iterdir()) == [30, 1000]


def test_a_wheel_of_several_blocks_arrives_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(wheel_bundle, "BLOCK", 100)
    files = make_files(tmp_path / "wheels", [1000])
    wheel_bundle.pack(files, tmp_path / "bundle", 10_000)
    wheel_bundle.unpack(tmp_path / "bundle", tmp_path / "in")
    assert (tmp_path / "in" / "package0.py").read_bytes() == contents(files)["package0.py"]


def test_a_wheel_is_installed_without_scripts_and_never_outside(tmp_path):
    def wheel(*names: str) -> bytes:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name in names:
                archive.writestr(name, name)
        return content.getvalue()

    names = ("one/__init__.py", "one-1.data/purelib/two.py", "one-1.data/scripts/run")
    wheel_bundle.install(wheel(*names), tmp_path / "in")
    found = {
        str(path.relative_to(tmp_path / "in")) for path in (tmp_path / "in").rglob("*") if path.is_file()
    }
    assert found == {"one/__init__.py", "two.py"}
    with pytest.raises(CampaignError, match="leads out"):
        wheel_bundle.install(wheel("../three.py"), tmp_path / "in")
    assert not (tmp_path / "three.py").exists()


def test_a_load_that_was_not_carried_is_named(carried, tmp_path):
    (piece,) = carried.rglob("*.part-01")
    piece.unlink()
    with pytest.raises(CampaignError, match=r"lacks package0-1.0-py3-none-any.whl.part-01; "):
        wheel_bundle.unpack(carried, tmp_path / "in")


def test_a_damaged_piece_is_named(carried, tmp_path):
    (piece,) = carried.rglob("*.part-01")
    content = bytearray(piece.read_bytes())
    content[3] ^= 1
    piece.write_bytes(content)
    with pytest.raises(CampaignError, match=r"package0-1.0-py3-none-any.whl was damaged in transit"):
        wheel_bundle.unpack(carried, tmp_path / "in")


def test_a_folder_that_is_no_bundle_is_an_error(tmp_path):
    with pytest.raises(CampaignError, match="sub-command bundle"):
        wheel_bundle.unpack(tmp_path, tmp_path / "in")


def test_a_bundle_is_not_mixed_with_other_files(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(CampaignError, match="is not empty"):
        wheel_bundle.bundle(tmp_path, 60, "3.12", with_torch=False)


def test_the_bundle_holds_what_the_package_needs():
    needed = wheel_bundle.requirements()
    names = {word.split("=")[0].split(">")[0].split("<")[0] for word in needed}
    assert {"apache-tvm", "pytorchcv", "torch", "xgboost-cpu"} <= names
    cuda = {"cuda-bindings", "cuda-pathfinder"}
    cuda |= {f"nvidia-cuda-{name}" for name in ("nvrtc", "runtime", "cccl", "crt")}
    assert cuda <= names


def test_the_torch_of_the_machine_stands_in_for_one_of_the_bundle(tmp_path):
    needed = [word for word in wheel_bundle.requirements() if word.startswith("torch")]
    options = wheel_bundle._without_torch(needed, tmp_path)
    source = ["--quiet", "--no-index", "--find-links", str(tmp_path), "--dest", str(tmp_path / "got")]
    subprocess.run([sys.executable, "-m", "pip", "download", *source, *options, *needed], check=True)
    (wheel,) = (tmp_path / "got").iterdir()
    assert wheel.stat().st_size < 1000


def test_what_the_machine_has_stays_behind(tmp_path):
    listing = tmp_path / "freeze.txt"
    listing.write_text("# there\nScikit.Learn==1.7\nml-dtypes @ file:///ml_dtypes.whl\npip==25.0\n")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("scikit_learn-1.6", "ml_dtypes-0.5", "pip-25.3", "apache_tvm-0.27"):
        (wheels / f"{name}-py3-none-any.whl").touch()
    wheel_bundle.leave_out(wheels, wheel_bundle.packages_in(listing))
    left = sorted(path.name.split("-")[0] for path in wheels.iterdir())
    assert left == ["apache_tvm"]
    with pytest.raises(CampaignError, match=r"missing\.txt: No such file"):
        wheel_bundle.packages_in(tmp_path / "missing.txt")


def test_the_cuda_wheels_are_carried_together_or_not_at_all():
    some = {"numpy", "nvidia_cuda_nvrtc", "nvidia_cuda_runtime", "cuda_pathfinder"}
    assert wheel_bundle.not_required(some) == {"numpy"}
    every = some | {"cuda_bindings", "nvidia_cuda_cccl", "nvidia_cuda_crt"}
    assert wheel_bundle.not_required(every) == every


@pytest.mark.parametrize(("text", "size"), [("60M", 60_000_000), ("1g", 10**9), ("500K", 500_000), ("7", 7)])
def test_sizes_are_read(text, size):
    assert wheel_bundle.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "0", "-5M", "60MB", "1.5M"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="write it like 60M"):
        wheel_bundle.parse_size(text)
