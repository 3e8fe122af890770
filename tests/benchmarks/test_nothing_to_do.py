"""Runs whose tasks are all in the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import nothing_to_do as subject


def report(measured: int) -> dict:
    return {
        "total_s": 20.0,
        "stage_s": {"compile": 4.0, "link": 6.0, "check outputs": 9.0},
        "tasks": [{"candidates_measured": measured}, {"candidates_measured": 0}],
    }


def test_runs_count_after_the_one_that_fills_the_database(monkeypatch, tmp_path: Path) -> None:
    reports, databases = iter([report(8), report(0), report(0)]), []

    def tuned(network, database, overrides):
        databases.append(database)
        return next(reports)

    monkeypatch.setattr(subject, "tuned", tuned)
    found = subject.measure("net", 2, [])
    assert len(set(databases)) == 1
    assert (found["tasks"], found["first_s"], len(found["runs"])) == (2, 20.0, 2)


def test_a_run_that_measures_is_no_result(monkeypatch) -> None:
    reports = iter([report(8), report(0), report(3)])
    monkeypatch.setattr(subject, "tuned", lambda *given: next(reports))
    with pytest.raises(ValueError, match="net: 3 programs were measured"):
        subject.measure("net", 2, [])
