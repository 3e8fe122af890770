"""Several runs of a command: checks before the first, and a table at the end."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from foretune.cli import main
from foretune.configuration import ConfigError
from foretune.errors import UserError
from foretune.hydra_command import run_command
from foretune.sweep import RunOutcome, Sweep, SweepRun


@pytest.fixture(autouse=True)
def same_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def run_of(value: float | None, lower: bool = False, status: int = 0, **settings: str) -> SweepRun:
    outcome = RunOutcome("tuned ms" if lower else "Spearman", value, lower)
    overrides = [f"{name}={text}" for name, text in settings.items()]
    return SweepRun(overrides, Path("multirun"), outcome if status == 0 else None, status, 61.0)


def first_cells(sweep: Sweep) -> list[str]:
    return [row[1] for row in sweep.table().rows]


def test_the_best_run_comes_first_and_failed_ones_last() -> None:
    sweep = Sweep([run_of(0.2, seed="0"), run_of(None, status=2, seed="1"), run_of(0.9, seed="2")])
    sweep.runs += [run_of(float("nan"), seed="3"), run_of(0.5, seed="4")]
    assert first_cells(sweep) == ["2", "4", "0", "3", "1"]
    lower = Sweep([run_of(2.0, True, seed="0"), run_of(1.0, True, seed="1")])
    assert first_cells(lower) == ["1", "0"]
    assert lower.table().rows[0] == ["1", "1", "1.00", "1 min 01 s", "./multirun"]
    assert sweep.status == 2 and lower.status == 0


def test_the_table_has_only_what_distinguishes_the_runs() -> None:
    sweep = Sweep([run_of(1.0, model=model, dataset="d") for model in ("mlp", "lstm")])
    assert [column.title for column in sweep.table().columns] == [
        "run",
        "model",
        "Spearman",
        "time",
        "folder",
    ]


def test_runs_go_on_after_a_failure_and_end_with_the_table(capsys) -> None:
    def job(config):
        if config.name == "b":
            raise UserError("b does not work")
        return RunOutcome("length", float(len(config.name)))

    with pytest.raises(SystemExit) as end:
        run_command("dataset_hardware", job, ["--multirun", "name=a,b,ccc"])
    printed = capsys.readouterr()
    assert end.value.code == 2 and "error: b does not work" in printed.err
    assert "3 runs, best first" in printed.out
    rows = [
        line.split() for line in printed.out.splitlines() if line.split()[2:4] and line.split()[0] in "012"
    ]
    assert [row[:3] for row in rows] == [["2", "ccc", "3.00"], ["0", "a", "1.00"], ["1", "b", "failed"]]


def test_an_interruption_ends_the_sweep_with_the_runs_so_far(capsys) -> None:
    def job(config):
        if config.name == "b":
            raise KeyboardInterrupt
        return RunOutcome("length", 1.0)

    with pytest.raises(SystemExit) as end:
        run_command("dataset_hardware", job, ["-m", "name=a,b,c"])
    assert end.value.code == 130
    printed = capsys.readouterr().out
    assert "2 runs" in printed and "best first" not in printed  # a single result has no rank


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dataset hardware --multirun cores=1,0", "a run with cores=0: cores=0: must be at least 1"),
        ("dataset hardware -m cores=1,x", "cores=x: must be a whole number"),
        ("train -m dataset=nowhere model=mlp,trees", "nowhere"),
        ("train -m dataset=nowhere model=mlp,tree", "model=tree is unknown: did you mean model=trees?"),
    ],
)
def test_a_bad_value_fails_before_the_first_run(capsys, tmp_path, line, message) -> None:
    with pytest.raises(SystemExit) as end:
        main(line.split())
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "") and message in printed.err
    assert list(tmp_path.iterdir()) == []


def test_a_check_may_refuse_a_run() -> None:
    started = []

    def check(config):
        if config.name == "bad":
            raise UserError("name=bad: unknown")

    with pytest.raises(ConfigError, match="a run with name=bad: name=bad: unknown; no run was started"):
        run_command("dataset_hardware", started.append, ["--multirun", "name=good,bad"], check)
    assert started == []
