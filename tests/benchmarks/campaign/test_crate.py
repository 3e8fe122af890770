"""Crates: within the limits, whole or refused."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path

import pytest

from benchmarks.campaign import crate
from benchmarks.campaign.landing import land
from benchmarks.campaign.limits import CampaignError, Limits
from benchmarks.campaign.workspace import PARTS, Workspace

SMALL = Limits(files=4, file=4000, returned=1 << 30)


def filled(folder: Path, sizes: dict[str, int]) -> Path:
    for name, size in sizes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(random.Random(name).randbytes(size))
    return folder


def test_a_crate_keeps_the_limits_and_leaves_the_least_worth_behind(tmp_path):
    sizes = {
        "results/a/b/result.json": 500,
        "data/x/records-1.parquet": 6000,
        "runs/one": 9000,
        "runs/two": 800,
    }
    work = filled(tmp_path / "work", sizes)
    left = crate.pack(work, PARTS, tmp_path / "out", {"calls": 1}, SMALL)
    assert left == ["runs/one"]
    files = list((tmp_path / "out").iterdir())
    assert len(files) <= SMALL.files and all(path.stat().st_size <= SMALL.file for path in files)
    found = crate.read(tmp_path / "out", tmp_path / "scratch")
    found.unpack(tmp_path / "in")
    here = {
        path.relative_to(tmp_path / "in").as_posix(): path
        for path in (tmp_path / "in").rglob("*")
        if path.is_file()
    }
    assert set(here) == set(sizes) - {"runs/one"}
    assert all(path.read_bytes() == (work / name).read_bytes() for name, path in here.items())


def test_the_limits_of_a_call_hold_a_full_crate():
    limits = Limits()
    assert limits.pieces * limits.file + (1 << 20) <= limits.returned and limits.pieces < limits.files


@pytest.fixture
def packed(tmp_path):
    work = filled(tmp_path / "work", {"results/a/b/result.json": 500, "runs/one": 9000})
    crate.pack(work, PARTS, tmp_path / "out", {"calls": 1, "commit": "c", "dry_run": True}, SMALL)
    return tmp_path / "out"


def damage(folder: Path) -> None:
    piece = folder / "campaign.zip.01"
    piece.write_bytes(b"?" + piece.read_bytes()[1:])


def other_format(folder: Path) -> None:
    manifest = json.loads((folder / "campaign.json").read_text())
    (folder / "campaign.json").write_text(json.dumps({**manifest, "format": 99}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (damage, r"campaign\.zip\.01: was damaged in transit; fetch"),
        (lambda folder: (folder / "campaign.zip.02").unlink(), r"campaign\.zip\.02: is missing"),
        (lambda folder: (folder / "campaign.json").unlink(), r"has no campaign\.json"),
        (lambda folder: (folder / "campaign.json").write_text("{"), r"campaign\.json: .*fetch the files"),
        (other_format, "format 99, but this commit reads 1"),
    ],
)
def test_a_damaged_crate_is_refused_and_nothing_changes(packed, tmp_path, change, told):
    change(packed)
    home = Workspace(
        tmp_path / "home" / "work", tmp_path / "home" / "r", tmp_path / "home" / "d", dry_run=True
    )
    with pytest.raises(CampaignError, match=told):
        land(packed, home)
    assert not home.work.exists() and not home.results.exists()


def test_a_foreign_result_is_refused(packed, tmp_path):
    home = Workspace(
        tmp_path / "home" / "work", tmp_path / "home" / "r", tmp_path / "home" / "d", dry_run=True
    )
    with pytest.raises(CampaignError, match="nothing was changed"):
        land(packed, home)  # its result has no manifest
    assert not home.work.exists()


def test_an_archive_never_writes_outside(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../outside", "x")
    with pytest.raises(CampaignError, match="leads out of the folder"):
        crate.Crate({}, tmp_path / "bad.zip").unpack(tmp_path / "in")
    assert not (tmp_path / "outside").exists()
