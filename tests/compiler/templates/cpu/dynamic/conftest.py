"""Fixtures of kernels of any size."""

from __future__ import annotations

import pytest

from tests.compiler.templates.cpu.dynamic.kernels import TARGET
from tests.support.cpus import require


@pytest.fixture
def runs_here() -> None:
    """Skips a test whose kernels this CPU cannot run."""
    require(TARGET)
