"""Fixture with an emulated GPU, for tests that import it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cuda_emulation import EmulatedGpu, unavailable_reason


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGpu]:
    """One emulated GPU for all tests of a run; its process starts at the first use."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with EmulatedGpu(tmp_path_factory.mktemp("cuda_emulation")) as emulated:
        yield emulated
