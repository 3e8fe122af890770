"""Reports of the runs of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.inference.report import plots


@pytest.fixture(autouse=True)
def reports_have_no_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the plots out of reports, which take a second of each run.

    The tests of `inference/report` draw them, and so do commands in processes of their own.
    """
    if not request.path.is_relative_to(Path(__file__).with_name("report")):
        monkeypatch.setattr(plots, "_plots", tuple)
