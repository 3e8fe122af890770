"""Profiles of the property tests: the same examples in every run, unless a search is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from support.cuda_emulation import EmulatedGpu, unavailable_reason

# A test that draws anew in each run fails one day for an input that nobody saw. A busy machine is no failure,
# so there is no deadline.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)

# Looks for inputs that fail: HYPOTHESIS_PROFILE=explore, or pytest's --hypothesis-profile=explore.
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "repeatable")


@pytest.fixture(scope="session", autouse=True)
def user_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Cache folder of the tests, so that they neither read nor write the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGpu]:
    """Emulated GPU for all tests of a run; its process starts at the first use."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with EmulatedGpu(tmp_path_factory.mktemp("cuda_emulation")) as emulated:
        yield emulated
