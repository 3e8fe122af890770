"""Commands in processes forked from one that has imported what they need, which takes several seconds."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_FORKS = """
import json, os, sys

import foretune.inference.tune  # before the forks
from foretune.cli import main

for line in sys.stdin:
    words, folder, output, errors = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        for path, stream in ((output, 1), (errors, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        main(words)
        sys.exit()
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


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

    def __enter__(self) -> ForkedCommands:
        self._server = subprocess.Popen(
            [sys.executable, "-c", _FORKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Tests that run in the background of a shell ignore Ctrl-C, and their processes inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._server.kill()
        self._server.communicate()

    def start(self, folder: Path, *words: str) -> ForkedCommand:
        """Starts `foretune` with these words in `folder`, where its output is kept."""
        output, errors = folder / "output.txt", folder / "errors.txt"
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps([words, *map(str, (folder, output, errors))])}\n".encode())
        return ForkedCommand(int(self._server.stdout.readline()), output, errors, self._server)
