"""Report on a sampler's draws: shares by hand, and the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.compiler.operators import Dense
from foretune.dataset.sampling.tasks.report import main, report
from foretune.dataset.sampling.zoo.table import ZooRow, write_zoo_table


def dense(width: int, epilogue: str = "none") -> Dense:
    return Dense(rows=64, in_features=64, out_features=width, epilogue=epilogue)


ROWS = [
    ZooRow(dense(64), 1, 1, ("a",), ()),
    ZooRow(dense(128), 2, 2, ("a", "b"), ("tested",)),
    ZooRow(dense(256), 0, 0, (), ("tested",)),
]


def test_shares_by_hand() -> None:
    drawn = [dense(64, "bias"), dense(128, "bias"), dense(512), dense(1024)]
    assert report(drawn, ROWS) == [
        "50.0% are of no crawled network",
        "25.0% are of an evaluation network",
        "50.0% of the operators of tested are among them",
        "operators: dense 4",
        "epilogues: bias 2, none 2",
    ]


def test_the_command_reports_the_sampler_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_zoo_table(ROWS, tmp_path / "table.csv")
    main(["--sampler", "uniform", "--tasks", "20", "--table", str(tmp_path / "table.csv")])
    out = capsys.readouterr().out
    assert out.startswith("20 tasks of sampler uniform")
    assert "100.0% are of no crawled network" in out
