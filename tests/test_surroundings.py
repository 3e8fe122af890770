"""Surroundings of the tests: nothing of the user's, and nothing in the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.checkout_guard import CheckoutGuard, CheckoutTouchedError
from support.paths import ROOT

OUTPUTS = ROOT / "outputs"


def test_a_test_starts_in_a_folder_of_its_own(tmp_path):
    assert Path.cwd() == tmp_path and not list(tmp_path.iterdir())
    assert not Path.home().is_relative_to(ROOT)
    assert not [name for name in os.environ if name.startswith("XDG_")]


@pytest.mark.parametrize(
    "touch",
    [
        lambda: (OUTPUTS / "report.json").read_text(),
        lambda: (OUTPUTS / "report.json").write_text(""),
        lambda: list(OUTPUTS.iterdir()),
        lambda: list(os.scandir(OUTPUTS)),
        lambda: (OUTPUTS / "tune").mkdir(parents=True),
        lambda: (ROOT / "left.txt").write_text(""),
        lambda: (ROOT / "left.txt").open("ab"),
        lambda: os.open(ROOT / "left.txt", os.O_CREAT | os.O_WRONLY),
        lambda: (ROOT / "README.md").unlink(),
        lambda: Path("left.txt").rename(ROOT / "left.txt"),
        lambda: subprocess.run([sys.executable, "-c", ""], cwd=ROOT),
        lambda: subprocess.run([sys.executable, "-c", ""], cwd=ROOT / "tests"),
    ],
)
def test_what_touches_the_checkout_is_refused_and_noted(touch, guard: CheckoutGuard):
    with pytest.raises(CheckoutTouchedError, match=str(ROOT)):
        touch()
    assert len(guard.seen) == 1
    guard.seen.clear()  # else this test fails


def test_the_longest_files_exist(pytestconfig):
    (listed,) = {
        plugin.LONGEST for plugin in pytestconfig.pluginmanager.get_plugins() if hasattr(plugin, "LONGEST")
    }
    assert [name for name in listed if not (ROOT / "tests" / name).is_file()] == []


def test_a_relative_path_from_the_checkout_is_refused(guard: CheckoutGuard, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(CheckoutTouchedError, match="outputs"):
        Path("outputs/tuning-database/notes.json").read_text()
    guard.seen.clear()


def test_files_that_tests_read_stay_readable(guard: CheckoutGuard):
    assert (ROOT / "README.md").read_text()
    assert ROOT / "README.md" in list(ROOT.iterdir())
    assert not guard.seen
