"""Commands that `foretune serve` runs end, print and answer signals as processes of their own would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from foretune import __version__
from foretune.handover import LOST, SERVED, process_key, socket_path
from support.killed_workers import ends

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="commands are served on Linux"),
    pytest.mark.usefixtures("terminal_signals"),
]

SERVER = """
import os, signal, sys, time
sys.path.append(os.getcwd())
from foretune import cli
from foretune.inference import serve
from foretune.errors import exits_cleanly
from foretune.signals import signals_interrupt

serve.IMPORTS = ("sets_a_variable",)
real = cli.main

def main():
    words = sys.argv[1:]
    if words[0] == "sleep":
        with signals_interrupt(), exits_cleanly():
            print(os.getpid(), os.getcwd(), os.environ["ASKED"], sys.stdin.readline().strip(), flush=True)
            time.sleep(60)
    if words[0] == "fork":
        from foretune.compiler.host.warm import start_warm

        read, write = os.pipe()
        process = start_warm("tells_its_parent", write, sys.stderr)
        os.close(write)
        print(os.read(read, 100).decode(), process.wait(30))
        return
    if words[0] == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    real()

cli.main = main
serve.run(float(sys.argv[1]))
"""


class Machine:
    """Processes with one folder for their socket."""

    def __init__(self, folder: Path) -> None:
        # Not where processes start: Python would take the socket's folder `foretune` there for the package.
        self.sockets = folder / "sockets"
        self.folder = folder / "here"
        for made in (self.sockets, self.folder):
            made.mkdir()
        (self.folder / "sets_a_variable.py").write_text("import os\nos.environ['TVM_OF_IMPORT'] = '1'\n")
        inherited = {
            name: value for name, value in os.environ.items() if name != SERVED
        }  # a benchmark sets it
        self.environment = inherited | {"XDG_RUNTIME_DIR": str(self.sockets), "ASKED": "yes"}

    def server(self, idle_s: float = 60.0) -> subprocess.Popen[str]:
        """A process that serves, or has ended because it cannot."""
        process = self._start([sys.executable, "-c", SERVER, str(idle_s)])
        assert process.stdout is not None
        if line := process.stdout.readline():
            assert line.startswith("ready after ")
        return process

    def command(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """A process of `foretune`."""
        return self._start([sys.executable, "-m", "foretune", *words], **environment)

    def _start(self, command: list[str], **environment: str) -> subprocess.Popen[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            command, text=True, env=self.environment | environment, cwd=self.folder, **pipes
        )


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("m"))


@pytest.fixture
def server(machine: Machine) -> Iterator[subprocess.Popen[str]]:
    process = machine.server()
    yield process
    process.kill()
    process.communicate()


def sleeping(machine: Machine) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A command that sleeps in a process of the server, and this process."""
    command = machine.command("sleep")
    assert command.stdin is not None and command.stdout is not None
    command.stdin.write("typed\n")
    command.stdin.flush()
    pid, folder, asked, typed = command.stdout.readline().split()
    assert (folder, asked, typed) == (str(machine.folder), "yes", "typed")
    return command, psutil.Process(int(pid))


def test_a_served_command_prints_and_ends_as_its_own_process(machine, server):
    command = machine.command("version")
    assert command.communicate() == (f"foretune {__version__}\n", "") and command.returncode == 0
    command = machine.command("checkpoints", "show", "nowhere")
    printed, errors = command.communicate()
    assert command.returncode == 2 and not printed and errors.startswith("error: ")
    assert server.stdout.readline().endswith(": foretune version\n")
    command = machine.command("die")
    command.communicate()
    assert command.returncode == 128 + signal.SIGSEGV


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_the_command(machine, server, number, status):
    command, process = sleeping(machine)
    assert process.ppid() == server.pid
    command.send_signal(number)
    _, errors = command.communicate(timeout=20)
    assert command.returncode == status and errors.startswith("interrupted")


def test_a_command_ends_with_a_killed_owner_and_with_a_killed_server(machine, server):
    command, process = sleeping(machine)
    process.suspend()
    command.kill()
    command.communicate()
    assert ends(process)
    command, process = sleeping(machine)
    server.kill()
    _, errors = command.communicate(timeout=20)
    assert command.returncode == LOST and errors.startswith("foretune serve has ended")
    assert ends(process)
    # Its socket has no listener, and the next command runs by itself.
    assert machine.command("version").communicate() == (f"foretune {__version__}\n", "")
    other = machine.server()
    assert other.poll() is None
    other.kill()
    other.communicate()


def test_commands_share_the_imports_of_their_worker_processes(machine, server):
    tells = (
        "import os, sys\nif __name__ == '__main__':\n    os.write(int(sys.argv[1]), b'%d' % os.getppid())\n"
    )
    (machine.folder / "tells_its_parent.py").write_text(tells)
    told = [machine.command("fork").communicate() for _ in range(2)]
    assert told[0] == told[1] and told[0][0].endswith(" 0\n") and not told[0][1]
    warm = psutil.Process(int(told[0][0].split()[0]))
    assert warm.ppid() == server.pid
    server.kill()
    assert ends(warm)


def test_a_server_waits_for_its_commands_until_the_second_signal(machine, server):
    command, process = sleeping(machine)
    server.send_signal(signal.SIGINT)
    assert server.stdout.readline().endswith(": foretune sleep\n")
    assert server.stdout.readline().startswith("waiting for 1 command;")
    late = machine.command("version")
    printed, errors = late.communicate()
    assert (
        printed == f"foretune {__version__}\n" and "foretune serve is ending; this command starts" in errors
    )
    server.send_signal(signal.SIGINT)
    assert server.wait(20) == 0 and ends(process)
    command.communicate(timeout=20)
    assert command.returncode == LOST
    assert not (machine.sockets / "foretune" / "serve").exists()


def test_a_command_with_other_variables_or_code_runs_by_itself(machine, server):
    printed, errors = machine.command("version", OMP_NUM_THREADS="7").communicate()
    assert printed == f"foretune {__version__}\n"
    assert "has other code or other variables than this command; start it again" in errors
    assert machine.command("version", FORETUNE_SERVE="0").communicate() == (printed, "")
    assert process_key({"A": "1"}) == process_key({"A": "2"})
    assert process_key({"OMP_NUM_THREADS": "1"}) != process_key({"OMP_NUM_THREADS": "2"})


def test_changed_code_is_another_key(monkeypatch, tmp_path):
    (tmp_path / "handover.py").touch()
    (tmp_path / "compiler").mkdir()
    for name in ("__init__.py", "passes.py"):
        (tmp_path / "compiler" / name).touch()
    monkeypatch.setattr("foretune.handover.__file__", str(tmp_path / "handover.py"))
    before = process_key()
    assert process_key() == before
    os.utime(tmp_path / "compiler" / "passes.py", (1.0, 1.0))
    assert process_key() != before


def test_what_is_no_command_is_refused(machine, server):
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(machine.sockets / "foretune" / "serve"))
        connection.send(b"{")
        assert connection.recv(100) == b"refused did not understand the command"
    assert machine.command("version").communicate()[0] == f"foretune {__version__}\n"


def test_one_server_of_a_user_ends_when_it_is_idle(machine):
    first = machine.server(idle_s=3.0)
    second = machine.server()
    _, errors = second.communicate()
    assert second.returncode == 2 and f"process {first.pid} on " in errors and "serves already" in errors
    began = time.monotonic()
    assert first.wait(20) == 0 and time.monotonic() - began < 10
    assert "no command within 0.05 minutes" in first.communicate()[0]


def test_a_folder_that_others_may_enter_is_refused(machine):
    (machine.sockets / "foretune").mkdir(mode=0o755)
    process = machine.server()
    _, errors = process.communicate()
    assert process.returncode == 2 and f"chmod 700 {machine.sockets / 'foretune'}" in errors


def test_a_socket_whose_path_is_too_long_is_told(machine):
    machine.environment["XDG_RUNTIME_DIR"] = str(machine.sockets / ("long" * 40))
    _, errors = machine.server().communicate()
    assert (
        errors.startswith("error: ")
        and "set XDG_RUNTIME_DIR to a folder of yours with a short path" in errors
    )
    assert machine.command("version").communicate() == (f"foretune {__version__}\n", "")


def test_the_socket_is_in_the_cache_without_a_folder_for_the_run_time():
    assert socket_path({"XDG_RUNTIME_DIR": "/run/user/1"}) == Path("/run/user/1/foretune/serve")
    assert socket_path({"XDG_CACHE_HOME": "/c"}) == Path("/c/foretune/serve")
    assert socket_path({"XDG_RUNTIME_DIR": "here"}) == Path.home() / ".cache/foretune/serve"
