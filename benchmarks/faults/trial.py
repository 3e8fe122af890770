"""One fault: the command under it, the command after it, and what both leave."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ..forked_commands import CLI, ForkedCommand, ForkedCommands
from .kinds import KILL_CHILD, SIGNALS, Fault, disk, surroundings

MARK = "FORETUNE_FAULT"
"""Environment variable of all processes of a command."""

LIMIT_S, LIMIT_TIMES = 300.0, 10.0
"""A command counts as hung after so long: seconds, or a multiple of its duration without a fault if
that is longer."""

_ENDS_WITHIN_S = 30.0
"""Seconds that processes may take to end after their command."""

_FINISHES_WITHIN = 0.2
"""Share of its duration that a command may take to finish after a signal that came too late to end it."""

_SAYS = {2: "error: ", 128 + signal.SIGTERM: "interrupted", 128 + signal.SIGHUP: "interrupted"}
"""Start of the line that a command prints before it ends with a status."""

_TRACEBACK = "Traceback (most recent call last)"


class Trials:
    """Runs faults on copies of a prepared folder."""

    def __init__(self, commands: ForkedCommands, template: Path, seconds: dict[str, float]) -> None:
        """`seconds` are those of each command without a fault."""
        self._commands, self._template, self._seconds = commands, template, seconds

    def run(self, fault: Fault) -> dict[str, Any]:
        """Row of a fault."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            folder, streams = Path(scratch) / "disk", Path(scratch) / "streams"
            streams.mkdir()
            with disk(folder):
                shutil.copytree(self._template, folder, dirs_exist_ok=True)
                return {**self._row(fault, folder, streams), "seconds": time.monotonic() - began}

    def _row(self, fault: Fault, folder: Path, streams: Path) -> dict[str, Any]:
        subject, mark = fault.subject, f"{os.getpid()}-{time.monotonic_ns()}"
        before = subject.stored(folder)
        with surroundings(fault, folder) as around:
            command = self._start(fault, folder, streams, subject.words, mark, around.limits)
            detail = around.detail or self._strike(fault, command)
            struck = time.monotonic()
            hung = not self._ended(fault, command)
            ended_after_s = time.monotonic() - struck
            late = ended_after_s <= _FINISHES_WITHIN * self._seconds[fault.command]
            left = _left_running(mark)
            errors = command.errors
            if fault.kind != "damaged":
                before |= subject.stored(folder)
        again = self._start(fault, folder, streams, _next_words(fault, folder, errors), f"{mark}-again", {})
        hung_again = not self._ended(fault, again)
        left += _left_running(f"{mark}-again")
        done = again.status == 0 or _is_complete(fault, folder, again.errors)
        texts = [errors, command.output, again.errors, again.output]
        return {
            "fault": fault.number,
            "command": fault.command,
            "kind": fault.kind,
            "detail": detail,
            "ended_after_s": ended_after_s,
            "status": command.status,
            "wrong_status": not is_right(fault, command.status, _message(errors), finished=late),
            "message": _message(errors),
            "continued": done,
            "continued_message": "" if done else _message(again.errors),
            "lost": len(before - subject.stored(folder)),
            "left_running": left,
            "tracebacks": sum(_TRACEBACK in text for text in texts),
            "traceback": next((_traceback(text) for text in texts if _TRACEBACK in text), ""),
            "hung": hung or hung_again,
        }

    def _start(
        self,
        fault: Fault,
        folder: Path,
        streams: Path,
        words: Sequence[str],
        mark: str,
        limits: Any,
    ) -> ForkedCommand:
        into = streams / mark
        into.mkdir()
        environment = environment_in(folder) | {MARK: mark}
        return self._commands.start(
            folder, *words, entry=fault.subject.entry, streams=into, environment=environment, limits=limits
        )

    def _strike(self, fault: Fault, command: ForkedCommand) -> str:
        """Sends the signal of a fault at its time; describes what it did."""
        after_s = fault.share * self._seconds[fault.command]
        if command.wait(after_s) is not None:
            return f"ended before {after_s:.2f} s"
        number, pid = SIGNALS.get(fault.kind, signal.SIGKILL), command.pid
        if fault.kind == KILL_CHILD:
            children = _children(pid)
            if not children:
                return f"no child after {after_s:.2f} s"
            pid = children[fault.choice % len(children)]
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return f"ended at {after_s:.2f} s"
        return f"{number.name} after {after_s:.2f} s"

    def _ended(self, fault: Fault, command: ForkedCommand) -> bool:
        """Whether a command ended in time; it is killed otherwise."""
        if command.wait(max(LIMIT_S, LIMIT_TIMES * self._seconds[fault.command])) is not None:
            return True
        with suppress(ProcessLookupError):  # it may have ended just now
            os.kill(command.pid, signal.SIGKILL)
        command.wait(60)
        return False


def is_right(fault: Fault, status: int | None, message: str, *, finished: bool) -> bool:
    """Whether a command may end so under a fault.

    A signal ends it, unless it had `finished` its work shortly after. Any other fault either does not matter
    or is an error. Errors and interruptions are told by `message`.
    """
    number = SIGNALS.get(fault.kind)
    if number is None:
        right = {0, 2}
    else:
        caught = number != signal.SIGKILL and fault.subject.entry == CLI
        right = {128 + number if caught else -number, *([0] if finished else [])}
    return status in right and message.startswith(_SAYS.get(status or 0, ""))


def environment_in(folder: Path) -> dict[str, str]:
    """Environment variables that keep a command's files in its folder."""
    temporary = folder / "temporary"
    return {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder), "TMPDIR": str(temporary)}


def _children(pid: int) -> list[int]:
    """Descendants of a process, none if it has ended."""
    try:
        return sorted(process.pid for process in psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _left_running(mark: str) -> int:
    """Number of processes that a command has left, which are killed then."""
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while (found := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return len(found)


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _next_words(fault: Fault, folder: Path, errors: str) -> Sequence[str]:
    """Words of the command after a fault: those that the interruption told, or the same."""
    told = next((line for line in errors.splitlines() if line.startswith("interrupted ")), "")
    if "foretune " in told:
        return shlex.split(told[told.index("foretune ") :])[1:]
    words = fault.subject.words
    resumes = fault.subject.needs_resume and (folder / "trained" / "last.ckpt").is_file()
    return [*words, "resume=true"] if resumes else words


def _is_complete(fault: Fault, folder: Path, errors: str) -> bool:
    """Whether nothing was left to do: a training whose checkpoint exists is not repeated."""
    return (
        fault.command == "train"
        and (folder / "trained/checkpoint/card.json").is_file()
        and "exists" in errors
    )


def _traceback(text: str) -> str:
    """Beginning of the first traceback in a text."""
    return text[text.index(_TRACEBACK) :][:4000]


def _message(errors: str) -> str:
    """Line of a command about its end: that of an error or interruption, or the last one."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("error: ", "interrupted"))]
    if not told and _TRACEBACK in errors:
        told = [
            line for line in errors.partition(_TRACEBACK)[2].splitlines()[1:] if line[:1] not in (" ", "")
        ]
    return (told or lines[-1:] or [""])[0][:300]
