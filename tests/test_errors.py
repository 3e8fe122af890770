"""The end of a command by an error."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from foretune.errors import end_process, exits_cleanly

ENDING = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from foretune.errors import end_process

class Object:
    def __del__(self):
        print("freed")

kept = Object()
atexit.register(print, "function")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
ThreadPoolExecutor(1).submit(print, "pool").result()
sys.stdout.write("text ")
end_process(CODE)
"""


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


@pytest.mark.parametrize(("code", "status"), [(None, 0), (0, 0), (143, 143)])
def test_a_process_ends_with_its_threads_and_functions_but_frees_no_objects(code, status):
    words = [sys.executable, "-c", ENDING.replace("CODE", repr(code))]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (status, "")
    assert ended.stdout.split() == ["pool", "text", "thread", "function"]


def test_a_message_as_a_code_is_left_to_python():
    with pytest.raises(SystemExit, match="no such file"):
        end_process("no such file")
