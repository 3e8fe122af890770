"""Tests of deferred interrupts: SIGINT is raised at the end of the block, and only there."""

import os
import signal
import threading

import pytest
from foretune.compiler.host.interruption import interrupts_deferred


def test_an_interrupt_waits_for_the_end_of_the_block():
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("end")
    assert reached == ["end"]


def test_without_an_interrupt_nothing_is_raised_and_the_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_deferred():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_inside_comes_first():
    with pytest.raises(ZeroDivisionError), interrupts_deferred():
        os.kill(os.getpid(), signal.SIGINT)
        1 / 0  # noqa: B018


def test_other_threads_are_left_alone():
    errors = []

    def work():
        try:
            with interrupts_deferred():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
