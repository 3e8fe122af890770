"""The filter of TVM's lines about memory scopes."""

from __future__ import annotations

import os

import pytest
from foretune.inference.deploy.scope_warnings import without_scope_warnings


def test_only_lines_about_scopes_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with without_scope_warnings():
        os.write(2, b"executable.cc:340: Warning: Scope Loaded:\nsomething else\n")
    os.write(2, b"Warning: Scope Loaded: later\n")
    assert capfd.readouterr().err == "something else\nWarning: Scope Loaded: later\n"


def test_lines_before_an_error_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), without_scope_warnings():
        os.write(2, b"a reason\n")
        _ = 1 // 0
    assert capfd.readouterr().err == "a reason\n"
