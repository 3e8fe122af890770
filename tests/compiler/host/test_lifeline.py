"""Tied processes end with the process that started them, however that ends and whatever state they are in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import psutil
import pytest
from foretune.compiler.host import lifeline, tied
from foretune.compiler.host.lifeline import process_pool, run_tied, start_tied
from support.killed_workers import ends, has_ended

PARENT = """
import os, signal, sys, threading, time
from foretune.compiler.host import lifeline, tied

way, stopped, command = sys.argv[1], sys.argv[2] == "stopped", sys.argv[3:]
tied.KERNEL_ENDS_CHILDREN = tied.KERNEL_ENDS_CHILDREN and way == "kernel"
started = []
thread = threading.Thread(target=lambda: started.append(lifeline.start_tied(command)))
thread.start()
thread.join()
(process,) = started
if stopped:
    process.wait_until_tied()
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
print(process.pid, flush=True)
time.sleep(60)
"""

POOL = """
import time
from foretune.compiler.host.lifeline import process_pool

if __name__ == "__main__":
    with process_pool(2) as pool:
        for _ in range(2):
            pool.submit(time.sleep, 60)
        for pid in pool._processes:
            print(pid)
        print("", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    """Folder with a module that sleeps, which a process in the folder can run."""
    (tmp_path / "sleeper.py").write_text("import time\ntime.sleep(60)\n")
    return tmp_path


@pytest.mark.skipif(not tied.KERNEL_ENDS_CHILDREN, reason="the kernel ends no children")
@pytest.mark.parametrize(
    ("way", "state", "command"),
    [
        ("kernel", "stopped", ("-m", "sleeper")),
        ("kernel", "stopped", (sys.executable, "-m", "sleeper")),
        ("pipe", "runs", ("-m", "sleeper")),
    ],
)
def test_a_process_ends_with_a_killed_parent(sleeper, way, state, command):
    # The thread that asked for it ended long ago, which must not end the process.
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, way, state, *command], stdout=subprocess.PIPE, text=True, cwd=sleeper
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert not has_ended(child) and (child.status() == psutil.STATUS_STOPPED) == (state == "stopped")
    parent.kill()
    parent.communicate()
    assert ends(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the file")
def test_the_processes_of_a_run_are_killed_before_it_when_memory_runs_out():
    code = "print(open('/proc/self/oom_score_adj').read())"
    own = Path("/proc/self/oom_score_adj").read_text()
    assert run_tied([sys.executable, "-c", code]).stdout.strip() == "1000"
    with process_pool(1) as pool:
        assert pool.submit(Path.read_text, Path("/proc/self/oom_score_adj")).result(60).strip() == "1000"
    assert Path("/proc/self/oom_score_adj").read_text() == own != "1000\n"


def test_a_process_whose_parent_ended_before_it_was_tied_ends_itself(sleeper):
    facts = (str(Path(tied.__file__)), "1", "999999999", tied.BY_KERNEL, tied.LISTENING, "")
    done = subprocess.run([sys.executable, *facts, "-m", "sleeper"], cwd=sleeper, timeout=30)
    assert done.returncode == tied.ENDED_BY_PARENT


def test_a_pool_ends_with_a_killed_parent(tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [psutil.Process(int(line)) for line in iter(parent.stdout.readline, "\n")]
    assert len(workers) == 2
    parent.kill()
    parent.communicate()
    assert all(map(ends, workers))


def test_an_error_ends_the_work_of_a_pool_at_once():
    with pytest.raises(KeyboardInterrupt), process_pool(1) as pool:
        working = pool.submit(signal.pause)
        pids = list(pool._processes)
        raise KeyboardInterrupt
    assert working.exception() is not None
    assert not any(map(psutil.pid_exists, pids))


def test_a_pool_does_without_a_package():
    with process_pool(1, without="wave") as pool:
        assert pool.submit(eval, "__import__('json').__name__").result(60) == "json"
        with pytest.raises(ModuleNotFoundError, match="wave"):
            pool.submit(import_module, "wave").result(60)


def test_a_module_runs_as_with_python(tmp_path):
    (tmp_path / "told.py").write_text(
        "import sys\nprint(__name__, sys.argv[1:], sys.path[0] == '')\ntry:\n    import json\n"
        "except ImportError:\n    print('without json')\n"
    )
    done = run_tied(["-m", "told", "a", "b c"], cwd=tmp_path, without="json")
    assert (done.returncode, done.stdout) == (0, "__main__ ['a', 'b c'] True\nwithout json\n")
    with pytest.raises(subprocess.CalledProcessError):
        run_tied([sys.executable, "-c", "raise SystemExit(3)"], check=True)


def test_a_deaf_process_leaves_signals_to_its_parent(sleeper):
    with start_tied(["-m", "sleeper"], cwd=sleeper, deaf=True) as process:
        process.wait_until_tied()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.kill_group()
        assert process.returncode == -signal.SIGKILL


def test_a_fork_starts_processes_by_a_thread_of_its_own(tmp_path):
    run_tied([sys.executable, "-c", ""])  # this process has its thread
    child = os.fork()
    if not child:
        os._exit(run_tied([sys.executable, "-c", "raise SystemExit(7)"]).returncode)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_process_that_cannot_start_is_an_error_of_the_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        start_tied(["-m", "sleeper"], cwd=tmp_path / "nowhere")
    assert lifeline._starter() is lifeline._starter()
