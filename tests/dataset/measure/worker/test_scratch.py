"""Tests of temporary folders: those of killed processes are removed, those of live ones stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from foretune.dataset.measure.worker.scratch import PREFIX, ScratchFolder, remove_stale_folders

OWNER = """
import sys, time, types
package = types.ModuleType("scratch")  # the module alone: it needs no TVM
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), package.__dict__)
folder = package.ScratchFolder()
(folder.path / "library.so").write_text("x")
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def owner() -> tuple[subprocess.Popen[str], Path]:
    """Another process with a scratch folder, and the folder's path."""
    import foretune.dataset.measure.worker.scratch as module

    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(module.__file__)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_live_one_is_not():
    (dead, left), (live, kept) = owner(), owner()
    try:
        assert left.name.startswith(f"{PREFIX}{dead.pid}-")
        assert remove_stale_folders() == []
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        mine = ScratchFolder()  # as at the next start
        assert not left.exists()
        assert (kept / "library.so").exists()
        assert mine.path.is_dir()
        assert remove_stale_folders() == []
        mine.cleanup()
        assert not mine.path.exists()
    finally:
        for process in (dead, live):
            process.kill()
            process.communicate()


def test_what_is_not_ours_stays(temporary_files):
    unlocked = temporary_files / f"{PREFIX}123-abc"
    unlocked.mkdir()  # as another process has just created it
    other = temporary_files / f"{PREFIX}results-2026"
    other.mkdir()
    (other / "report.html").write_text("mine")
    (temporary_files / f"{PREFIX}456-file").write_text("")
    (temporary_files / f"{PREFIX}789-link").symlink_to(other)
    assert remove_stale_folders() == []
    assert unlocked.is_dir() and (other / "report.html").exists()
