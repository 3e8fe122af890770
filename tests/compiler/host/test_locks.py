"""Locks of folders: a second process is told of the first, and a killed one leaves no lock."""

from __future__ import annotations

import os

import pytest
from foretune.compiler.host.locks import LockedError, locked
from support.locks import held_by_another_process


def test_a_killed_process_leaves_no_lock(tmp_path):
    path, waited = tmp_path / ".lock", []
    with held_by_another_process(path) as holder:
        with pytest.raises(LockedError, match=f"^process {holder.pid} on "), locked(path):
            pass

        def wait(text: str) -> None:
            waited.append(text)
            holder.kill()

        told = f"^process {os.getpid()} on "
        with locked(path, wait), pytest.raises(LockedError, match=told), locked(path):
            pass
    assert len(waited) == 1


def test_a_folder_that_cannot_be_written_has_no_lock(tmp_path):
    with locked(tmp_path / "nowhere" / ".lock"), locked(tmp_path / "nowhere" / ".lock"):
        pass
