"""Commands in processes forked from one that has imported what they need, which takes several seconds."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TUNE = ("foretune.inference.tune",)
CLI = "foretune.cli:main"

_FORKS = """
import json, os, resource, sys, tempfile
from importlib import import_module

for name in sys.argv[1:]:  # before the forks
    import_module(name)

def limit(name, most):
    if name == "RLIMIT_AS":  # in addition to what the imports have taken
        with open("/proc/self/statm") as file:
            most += int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(getattr(resource, name), (most, most))

for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # the environment may name another folder
        for path, stream in ((request["output"], 1), (request["errors"], 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        for name, most in request["limits"].items():
            limit(name, most)
        module, _, function = request["entry"].partition(":")
        sys.argv = [module, *request["words"]]
        getattr(import_module(module), function)()
        sys.exit()
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


def _hear_signals() -> None:
    """Hears the signals that processes in the background of a shell, or of nohup, were started to ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@dataclass
class ForkedCommand:
    """A command that was started; its output is in files while it runs."""

    pid: int
    output_path: Path
    errors_path: Path
    server: subprocess.Popen[bytes]
    status: int | None = None

    @property
    def output(self) -> str:
        return self.output_path.read_text(encoding="utf-8")

    @property
    def errors(self) -> str:
        return self.errors_path.read_text(encoding="utf-8")

    def wait(self, timeout_s: float) -> int | None:
        """Exit status, minus the number of the signal that killed it, or None if it still runs."""
        stdout = self.server.stdout
        assert stdout is not None
        if self.status is None and select.select([stdout], [], [], timeout_s)[0]:
            self.status = int(stdout.readline())
        return self.status


class ForkedCommands:
    """Starts commands one after another; use it as a context."""

    def __init__(self, imports: Sequence[str] = TUNE, environment: Mapping[str, str] | None = None) -> None:
        """Imports modules before the forks. `environment` is added to that of this process."""
        self._imports, self._environment = imports, environment or {}

    def __enter__(self) -> ForkedCommands:
        self._server = subprocess.Popen(
            [sys.executable, "-c", _FORKS, *self._imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **self._environment},
            preexec_fn=_hear_signals,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.communicate()

    def start(
        self,
        folder: Path,
        *words: str,
        entry: str = CLI,
        streams: Path | None = None,
        environment: Mapping[str, str] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> ForkedCommand:
        """Starts a command in a folder.

        Args:
            folder: current folder of the command.
            words: its arguments.
            entry: module and function that finds the words in `sys.argv`; by default the command `foretune`.
            streams: folder for its output, by default `folder`.
            environment: further environment variables.
            limits: names of `resource` and their values; RLIMIT_AS counts from the memory after the imports.
        """
        output, errors = (streams or folder) / "output.txt", (streams or folder) / "errors.txt"
        request: dict[str, Any] = {
            "words": words,
            "folder": str(folder),
            "output": str(output),
            "errors": str(errors),
            "entry": entry,
            "environment": dict(environment or {}),
            "limits": dict(limits or {}),
        }
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps(request)}\n".encode())
        return ForkedCommand(int(self._server.stdout.readline()), output, errors, self._server)
