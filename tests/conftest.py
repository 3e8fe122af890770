"""Surroundings of the tests: folders of their own, repeatable property tests, and the emulated GPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from foretune.errors import FULL_ERROR
from hypothesis import settings
from support.checkout_guard import CheckoutGuard
from support.cuda_emulation import EmulatedGpu, unavailable_reason

# A test that draws anew in each run fails one day for an input that nobody saw. A busy machine is no failure,
# so there is no deadline.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)

# Looks for inputs that fail: HYPOTHESIS_PROFILE=explore, or pytest's --hypothesis-profile=explore.
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "repeatable")


_OF_THE_USER = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", FULL_ERROR)
"""Environment variables that lead to the user's files, or change what a command prints."""


def pytest_configure(config: pytest.Config) -> None:
    """Gives the run a home of its own, before anything is imported; workers of xdist inherit it."""
    if hasattr(config, "workerinput"):
        return
    home = tempfile.TemporaryDirectory(prefix="foretune-tests-")
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name
    for name in _OF_THE_USER:
        os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckoutGuard]:
    """Guard of the checkout; fixtures of a wider scope than a test work in a folder of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("run"))
        guard = CheckoutGuard()
        yield guard
        guard.stop()


@pytest.fixture(autouse=True)
def own_folder(guard: CheckoutGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts each test in its `tmp_path`, and fails the one that touches the checkout."""
    monkeypatch.chdir(tmp_path)
    yield
    touched, guard.seen = guard.seen, []
    assert not touched


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGpu]:
    """Emulated GPU for all tests of a run; its process starts at the first use."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with EmulatedGpu(tmp_path_factory.mktemp("cuda_emulation")) as emulated:
        yield emulated
