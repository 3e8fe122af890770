"""Peak memory of runs compared with its estimate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import memory as subject

REPORT = {"peak_mb": 2000.0, "estimated_peak_mb": 1600.0, "tasks": [{}, {}], "total_s": 60.0}


def test_a_row_compares_the_peak_of_a_short_run_with_its_estimate(monkeypatch) -> None:
    def python_in(checkout, words, *, cwd, timeout_s):
        given = dict(word.partition("=")[::2] for word in words)
        assert given["network"] == "net" and given["check_memory"] == "false" and given["workers"] == "1"
        Path(given["output"]).mkdir()
        (Path(given["output"]) / "report.json").write_text(json.dumps(REPORT))
        return ""

    monkeypatch.setattr(subject, "python_in", python_in)
    row = subject.measure("net", ["workers=1"])
    expected = {"network": "net", "peak_mb": 2000.0, "estimated_mb": 1600.0, "tasks": 2, "total_s": 60.0}
    assert row == pytest.approx(expected)
