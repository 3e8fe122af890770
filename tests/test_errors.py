"""The end of a command by an error."""

from __future__ import annotations

import errno

import pytest
from foretune.errors import exits_cleanly


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_lack_of_memory_is_an_error_of_one_line(capsys, monkeypatch, error):
    with pytest.raises(SystemExit, match="2"), exits_cleanly():
        raise error
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: out of memory; free some") and "continues" in line
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(type(error)), exits_cleanly():
        raise error


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), OSError(errno.ENOENT, "no file")])
def test_other_errors_keep_their_traceback(error):
    with pytest.raises(type(error)), exits_cleanly():
        raise error
