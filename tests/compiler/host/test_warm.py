"""Processes of a warm server: they run as new ones would, and end with this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from foretune.compiler.host import warm
from foretune.compiler.host.warm import start_warm
from support.killed_workers import disappears, ends

pytestmark = pytest.mark.skipif(not warm.WORKS_HERE, reason="processes are not forked here")

TELLS = """
import os, sys
IMPORTED_BY = os.getpid()
def tell(text):
    with os.fdopen(int(sys.argv[1]), "w") as out:
        out.write(text)
"""

MODULE = """
import os, signal, sys
import counted
if __name__ == "__main__":
    if os.environ.get("WAITS"):
        signal.pause()
    if os.environ.get("FAILS"):
        raise ValueError("as asked")
    counted.tell(f"{counted.IMPORTED_BY} {os.getpid()} {os.getcwd()} {os.environ.get('ASKED')}")
    sys.exit(3)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that processes can run, and that imports another one."""
    (tmp_path / "counted.py").write_text(TELLS)
    (tmp_path / "runs.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return "runs"


def told_by(module: str, **environment: str) -> tuple[int, list[str], str]:
    """Exit status, words and standard error of a process."""
    read, write = os.pipe()
    with tempfile.TemporaryFile() as errors:
        process = start_warm(module, write, errors, environment=environment)
        os.close(write)
        with os.fdopen(read) as out:
            words = out.read().split()
        status = process.wait(30)
        errors.seek(0)
        return status, words, errors.read().decode()


def test_processes_share_the_imports_of_a_server(module, tmp_path, monkeypatch):
    folder = tmp_path / "other"
    folder.mkdir()
    status, (server, first, _, asked), errors = told_by(module)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ASKED", "yes")
    again, (same, second, where, now), _ = told_by(module)
    assert status == again == 3 and not errors
    assert server == same and len({server, first, second}) == 3
    assert (asked, where, now) == ("None", str(folder), "yes")


def test_imports_that_began_ahead_serve_the_later_process(module):
    warm.import_ahead(module, environment={"AHEAD": "yes"})
    servers = warm.server_pids()
    warm.import_ahead(module, environment={"AHEAD": "yes"})
    _, (server, *_), _ = told_by(module, AHEAD="yes")
    assert warm.server_pids() == servers and int(server) in servers
    assert int(told_by(module)[1][0]) not in servers  # another environment


def test_variables_that_libraries_read_early_have_a_server_of_their_own(module):
    assert told_by(module)[1][0] != told_by(module, OMP_NUM_THREADS="1")[1][0]


def test_an_error_is_told_as_by_a_new_process(module):
    status, _, errors = told_by(module, FAILS="1")
    assert status == 1 and errors.rstrip().endswith("ValueError: as asked")
    status, _, errors = told_by("no_such_module")
    assert status == 1 and "No module named no_such_module" in errors


def test_a_killed_process_tells_its_signal_and_a_killed_server_is_replaced(module):
    read, write = os.pipe()
    with tempfile.TemporaryFile() as errors:
        process, other = (start_warm(module, write, errors, environment={"WAITS": "1"}) for _ in range(2))
        server = psutil.Process(process.pid).ppid()
        assert process.poll() is None and server in warm.server_pids()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        os.kill(process.pid, signal.SIGSTOP)
        process.kill_group()
        assert process.poll() == -signal.SIGKILL
        os.kill(server, signal.SIGKILL)
        assert other.wait(10) == -signal.SIGKILL
        assert disappears(other.pid)
        third = start_warm(module, write, errors, environment={"WAITS": "1"})
        assert psutil.Process(third.pid).ppid() != server
        third.kill_group()
    os.close(read)
    os.close(write)


def test_a_server_that_ended_leaves_no_zombie(module):
    server = int(told_by(module)[1][0])
    os.kill(server, signal.SIGKILL)
    assert disappears(server)


def test_a_process_ends_with_a_killed_parent_even_if_it_is_stopped(module, tmp_path):
    code = (
        "import os, signal, sys, time\nfrom foretune.compiler.host.warm import start_warm\n"
        "process = start_warm('runs', 0, sys.stderr, environment={'WAITS': '1'})\n"
        "os.kill(process.pid, signal.SIGSTOP)\nprint(process.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    assert ends(child)


def test_an_idle_server_ends_and_the_next_process_starts_another(module, monkeypatch):
    monkeypatch.setattr(warm, "_TRUSTED_S", 0.0)  # the server is asked whether it still serves
    (server, *_), (same, *_) = told_by(module)[1], told_by(module)[1]
    assert server == same
    os.kill(int(server), signal.SIGKILL)
    assert told_by(module)[1][0] != server


BORROWS = """
import os, select, signal, sys, time
from foretune.compiler.host.warm import Lender, start_warm

lender = Lender()
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        lender.lend()
        read, write = os.pipe()
        process = start_warm("runs", write, sys.stderr)
        os.close(write)
        with os.fdopen(read) as out:
            print(out.read().split()[0], process.wait(30), flush=True)
        waiting = start_warm("runs", 0, sys.stderr, environment={"WAITS": "1"})
        print(waiting.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(2):  # two kinds of servers
        assert select.select([lender], [], [], 30)[0]
        lender.answer()
    os.waitpid(pid, 0)
print("over", flush=True)
time.sleep(60)
"""


def test_forks_share_the_servers_of_their_lender_and_their_processes_end_with_them(module, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", BORROWS, "2"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert parent.stdout is not None
    lines = [parent.stdout.readline().split() for _ in range(5)]
    (server, first), (waits,), (same, second), (waits_too,), (over,) = lines
    assert server == same and first == second == "3" and over == "over"
    assert disappears(int(waits)) and disappears(int(waits_too))  # their owners were killed
    serving = psutil.Process(int(server))
    assert serving.is_running()
    parent.kill()
    parent.communicate()
    assert ends(serving)


def test_without_an_answer_of_its_lender_a_process_starts_its_own_server(module, monkeypatch):
    monkeypatch.setattr(warm, "_PING_S", 0.2)
    before = told_by(module)[1][0]
    monkeypatch.setattr(warm._servers(), "lender", warm.Lender()._theirs)
    assert told_by(module)[1][0] == before  # one that it knows already
    assert told_by(module, OMP_NUM_THREADS="2")[1][0] != before
