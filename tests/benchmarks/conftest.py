"""Surroundings of the benchmarks' tests."""

from __future__ import annotations

import pytest
from support.paths import ROOT


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes of a benchmark import it. Users start benchmarks in a checkout, tests run elsewhere."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
