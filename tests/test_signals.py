"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest
from foretune.compiler.host.interruption import interrupts_recorded
from foretune.signals import Interrupted, signals_interrupt

pytestmark = pytest.mark.usefixtures("terminal_signals")

COMMAND = """
import signal, sys, time
from foretune.errors import exits_cleanly
from foretune.signals import signals_interrupt
with exits_cleanly(), signals_interrupt(to_the_end=True):
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        print("kept", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_command_as_ctrl_c_does(number, status):
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (status, "kept\n")
    assert errors == "interrupted; the same command continues from the stored results\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_work_does_not_replace_the_exit_status(number):
    code = (
        "import atexit, sys, time\n"
        "from foretune.errors import UserError, exits_cleanly\n"
        "from foretune.signals import signals_interrupt\n"
        "atexit.register(lambda: (print('ending', flush=True), sys.stdin.read()))\n"
        "with exits_cleanly(), signals_interrupt(to_the_end=True):\n"
        "    raise UserError('no')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ending\n"
    process.send_signal(number)
    assert process.communicate(timeout=30) == ("", "error: no\n") and process.returncode == 2


def test_a_terminal_that_closes_costs_nothing_that_is_kept(tmp_path):
    kept = tmp_path / "kept"
    code = COMMAND.replace(
        'print("kept", flush=True)', f"print('kept', flush=True); open({str(kept)!r}, 'w')"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert os.read(ours, 100).startswith(b"begun")
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    while process.poll() is None:
        process.send_signal(signal.SIGHUP)  # a terminal that closes sends several
    assert process.returncode == 129
    assert kept.exists()


def test_a_second_signal_does_not_disturb_the_end():
    ended = []
    with pytest.raises(Interrupted) as first, signals_interrupt():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            ended.append("kept")
    assert ended == ["kept"] and first.value.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with signals_interrupt(), interrupts_recorded() as came:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before)
