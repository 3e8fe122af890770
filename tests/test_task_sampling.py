"""Task sampling: determinism, limits, held-out and excluded tasks, proportions, errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.dataset.operators import OPERATOR_SETTINGS, Dense, OperatorSettings, settings_from_dict
from foretune.dataset.prior import CHAINS
from foretune.dataset.task import Task
from foretune.dataset.task_sampling import (
    DEFAULT_OPERATORS,
    EPILOGUES,
    TaskSamplingError,
    sample_tasks,
    sample_uniform,
)
from foretune.dataset.zoo_table import ZooRow, read_zoo_table, write_zoo_table

SAMPLERS = ("prior", "uniform", "zoo")


def shape(task: Task) -> OperatorSettings:
    """Settings of a task as the table has them: no epilogue."""
    return replace(settings_from_dict(task.operator, task.settings), epilogue="none")


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {sampler: sample_tasks(sampler, n=120, seed=7) for sampler in SAMPLERS}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_seed_fixes_the_tasks_and_fewer_come_first(sampler: str, tasks: dict[str, list[Task]]) -> None:
    again = [task.workload_hash for task in sample_tasks(sampler, n=30, seed=7)]
    assert again == [task.workload_hash for task in tasks[sampler][:30]]
    other = {task.workload_hash for task in sample_tasks(sampler, n=30, seed=8)}
    assert len(other & set(again)) < 20


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_tasks_are_distinct_and_within_limits(sampler: str, tasks: dict[str, list[Task]]) -> None:
    drawn = tasks[sampler]
    assert len(drawn) == 120
    assert len({task.workload_hash for task in drawn}) == 120
    assert len({shape(task) for task in drawn}) == 120
    assert all(1e5 <= shape(task).flops <= 4e9 for task in drawn)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_task_has_an_operator_of_an_evaluation_network(sampler: str, tasks: dict[str, list[Task]]) -> None:
    held_out = {row.settings for row in read_zoo_table() if row.evaluation}
    assert len(held_out) == 50
    assert not held_out & {shape(task) for task in tasks[sampler]}


def test_without_hold_out_common_layers_come_too() -> None:
    held_out = {row.settings for row in read_zoo_table() if row.evaluation}
    drawn = sample_tasks("zoo", n=100, seed=7, hold_out_evaluation=False)
    assert held_out & {shape(task) for task in drawn}


def test_prior_draws_tasks_that_no_network_of_the_table_has(tasks: dict[str, list[Task]]) -> None:
    table = {row.settings for row in read_zoo_table()}
    outside = {name: np.mean([shape(task) not in table for task in drawn]) for name, drawn in tasks.items()}
    assert outside["zoo"] == 0
    assert 0.2 < outside["prior"] < 0.8
    assert outside["uniform"] > 0.99


def test_excluded_hashes_do_not_come(tasks: dict[str, list[Task]]) -> None:
    excluded = {task.workload_hash for task in tasks["prior"][:15]}
    drawn = sample_tasks("prior", n=20, seed=7, exclude=excluded)
    assert not excluded & {task.workload_hash for task in drawn}


def test_operators_come_in_the_shares_asked_for(tasks: dict[str, list[Task]]) -> None:
    counts = Counter(task.operator for task in tasks["prior"])
    for operator, share in DEFAULT_OPERATORS.items():
        # Four standard deviations of a binomial count.
        assert abs(counts[operator] - 120 * share) < 4 * (120 * share * (1 - share)) ** 0.5
    only = sample_tasks("prior", n=8, seed=0, operators={"dense": 2, "conv2d": 0})
    assert {task.operator for task in only} == {"dense"}


def test_limits_and_dtype_can_be_set() -> None:
    drawn = sample_tasks("uniform", n=8, seed=0, min_flops=1e8, max_flops=2e8, dtype="float16")
    assert all(1e8 <= shape(task).flops <= 2e8 for task in drawn)
    assert {task.settings["dtype"] for task in drawn} == {"float16"}


def test_every_operator_has_a_chain_and_epilogues_it_knows() -> None:
    assert set(CHAINS) == set(EPILOGUES) == set(DEFAULT_OPERATORS) == set(OPERATOR_SETTINGS)
    for operator, shares in EPILOGUES.items():
        assert set(shares) <= set(OPERATOR_SETTINGS[operator].epilogues)
        assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("operator", OPERATOR_SETTINGS)
def test_uniform_settings_are_possible_and_wide(operator: str) -> None:
    rng = np.random.default_rng(0)
    drawn = [sample_uniform(operator, rng) for _ in range(300)]
    flops = [op.flops for op in drawn]
    assert len(set(drawn)) == 300
    assert max(flops) > 100 * min(flops)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "random"}, r"sampler='random': use one of prior, uniform, zoo"),
        ({"operators": {"conv3d": 1}}, r"operators: operator='conv3d': use one of conv2d"),
        ({"operators": {"conv2d": 0.0}}, r"give shares of at least 0, and one above 0"),
        ({"operators": {"conv2d": 2.0, "dense": -1.0}}, r"give shares of at least 0"),
        ({"operators": {}}, r"give shares of at least 0"),
        ({"n": 0}, r"n=0: draw at least 1 task"),
        ({"min_flops": 10, "max_flops": 5}, r"min_flops=10, max_flops=5: give 0 <= min <= max"),
        ({"max_flops": 2, "min_flops": 1}, r"found no new \w+ in 5000 draws, after 0 tasks; ask for fewer"),
        ({"table": Path("none.csv")}, r"none.csv: no such file"),
    ],
)
def test_bad_requests_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_tasks(**{"n": 3, "seed": 0, **options})


def test_a_table_that_runs_dry_says_so(tmp_path: Path) -> None:
    rows = [
        ZooRow(Dense(rows=64, in_features=64, out_features=width), 1, 1, ("net",), ()) for width in (64, 128)
    ]
    write_zoo_table(rows, tmp_path / "two.csv")
    options: dict[str, Any] = {"seed": 0, "operators": {"dense": 1}, "table": tmp_path / "two.csv"}
    assert len(sample_tasks("zoo", n=2, **options)) == 2
    with pytest.raises(TaskSamplingError, match=r"the zoo sampler found no new dense.*after 2 tasks"):
        sample_tasks("zoo", n=3, **options)
    with pytest.raises(TaskSamplingError, match=r"operator=conv2d: the table has none; use sampler=uniform"):
        sample_tasks("zoo", n=1, **{**options, "operators": {"conv2d": 1}})
