"""Task sampling: determinism, limits, held-out and excluded tasks, proportions, errors."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.compiler.operators import (
    OPERATOR_SETTINGS,
    Dense,
    OperatorSettings,
    Softmax,
    settings_from_dict,
    to_task,
)
from foretune.compiler.operators.shared.window import SlidingWindow
from foretune.compiler.task import Task
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.records.task_shapes import shape_of
from foretune.dataset.sampling.tasks import (
    SAMPLERS,
    TaskSamplingError,
    default_operators,
    sample_settings,
    sample_tasks,
    sampling,
)
from foretune.dataset.sampling.tasks.derived import prior_table, with_derived
from foretune.dataset.sampling.tasks.prior import sample_uniform
from foretune.dataset.sampling.zoo.table import ZOO_TABLE, ZooRow, read_zoo_table, write_zoo_table
from support.paths import ROOT

SHIPPED_MIX = {
    "conv2d": 0.45,
    "depthwise_conv2d": 0.1,
    "dense": 0.13,
    "batch_matmul": 0.08,
    "group_conv2d": 0.04,
    "conv1d": 0.03,
    "conv2d_transpose": 0.03,
    "conv3d": 0.015,
    "group_conv3d": 0.005,
    "softmax": 0.02,
    "layer_norm": 0.015,
    "group_norm": 0.005,
    "pool2d": 0.02,
    "reduction": 0.02,
    "conv1d_transpose": 0.01,
    "conv2d_winograd": 0.01,
    "batch_norm": 0.01,
    "capsule_conv2d": 0.005,
    "frobenius_norm": 0.005,
}
"""Operators of the package and their shares, in the order that the draws of a seed depend on."""


def settings_of(task: Task) -> OperatorSettings:
    return settings_from_dict(task.operator, task.settings)


def draw(sampler: str, n: int, **options: Any) -> list[OperatorSettings]:
    return list(islice(sample_settings(sampler, **{"seed": 7, **options}), n))


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {sampler: sample_tasks(sampler, n=30, seed=7) for sampler in SAMPLERS}


@pytest.fixture(scope="module")
def shapes() -> dict[str, list[OperatorSettings]]:
    options: dict[str, Any] = {"batches": [1], "operators": SHIPPED_MIX}
    return {sampler: [shape_of(s) for s in draw(sampler, 400, **options)] for sampler in SAMPLERS}


@pytest.fixture(scope="module")
def held_out() -> set[OperatorSettings]:
    return {shape_of(row.settings) for row in with_derived(read_zoo_table()) if row.evaluation}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_seed_fixes_the_tasks_and_fewer_come_first(sampler: str, tasks: dict[str, list[Task]]) -> None:
    again = [task.workload_hash for task in sample_tasks(sampler, n=20, seed=7)]
    assert again == [task.workload_hash for task in tasks[sampler][:20]]
    other = {shape_of(settings) for settings in draw(sampler, 20, seed=8)}
    assert len(other & {shape_of(settings_of(task)) for task in tasks[sampler]}) < 15


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_tasks_are_distinct_and_within_limits(sampler: str, tasks: dict[str, list[Task]]) -> None:
    drawn = tasks[sampler]
    assert len(drawn) == 30
    assert len({task.workload_hash for task in drawn}) == 30
    assert len({shape_of(settings_of(task)) for task in drawn}) == 30
    assert all(1e5 <= settings_of(task).flops <= 4e9 for task in drawn)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_task_has_an_operator_of_an_evaluation_network(
    sampler: str, shapes: dict[str, list[OperatorSettings]], held_out: set[OperatorSettings]
) -> None:
    assert len(held_out) > 50
    assert not held_out & set(shapes[sampler])


def test_without_hold_out_common_layers_come_too(held_out: set[OperatorSettings]) -> None:
    drawn = draw("zoo", 400, hold_out_evaluation=False)
    assert held_out & {shape_of(settings) for settings in drawn}


def test_prior_draws_tasks_that_no_network_of_the_table_has(
    shapes: dict[str, list[OperatorSettings]],
) -> None:
    table = {shape_of(row.settings) for row in prior_table(ZOO_TABLE).rows}
    outside = {sampler: np.mean([s not in table for s in drawn]) for sampler, drawn in shapes.items()}
    assert outside["zoo"] == 0
    assert 0.2 < outside["prior"] < 0.8
    assert outside["uniform"] > 0.98
    assert outside["random_networks"] > 0.5


def test_excluded_hashes_do_not_come(tasks: dict[str, list[Task]]) -> None:
    excluded = {task.workload_hash for task in tasks["prior"][:15]}
    drawn = sample_tasks("prior", n=15, seed=7, exclude=excluded)
    assert [t.workload_hash for t in drawn] == [t.workload_hash for t in tasks["prior"][15:30]]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_operators_come_in_the_shares_asked_for(
    sampler: str, shapes: dict[str, list[OperatorSettings]]
) -> None:
    counts = Counter(settings.operator for settings in shapes[sampler])
    for operator, share in SHIPPED_MIX.items():
        # Four standard deviations of a binomial count.
        assert abs(counts[operator] - 400 * share) < 4 * (400 * share * (1 - share)) ** 0.5
    only = draw(sampler, 8, operators={"dense": 2, "conv2d": 0})
    assert {settings.operator for settings in only} == {"dense"}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_draws_every_operator(sampler: str) -> None:
    drawn = draw(sampler, 250, operators=dict.fromkeys(default_operators(), 1.0), min_flops=0)
    assert {settings.operator for settings in drawn} == set(default_operators())


def test_the_default_mix_begins_with_the_shipped_operators_in_their_order() -> None:
    mix = default_operators()
    assert list(mix.items())[: len(SHIPPED_MIX)] == list(SHIPPED_MIX.items())
    assert sum(SHIPPED_MIX.values()) == pytest.approx(1)
    assert max(mix, key=lambda name: mix[name]) == "conv2d"


def test_limits_and_dtype_can_be_set() -> None:
    limits = {"min_flops": 1e8, "max_flops": 2e8}
    drawn = sample_tasks("uniform", n=4, seed=0, operators={"conv2d": 1}, dtype="float16", **limits)
    assert all(1e8 <= settings_of(task).flops <= 2e8 for task in drawn)
    assert {task.settings["dtype"] for task in drawn} == {"float16"}


def test_dtypes_come_in_the_shares_asked_for() -> None:
    drawn = draw("prior", 300, dtype={"float32": 0.5, "int8": 0.5, "float16": 0.0})
    counts = Counter(settings.dtype for settings in drawn if "int8" in settings.dtypes)
    assert set(counts) == {"float32", "int8"}
    assert abs(counts["int8"] - counts["float32"]) < 4 * sum(counts.values()) ** 0.5
    assert {s.dtype for s in drawn if "int8" not in s.dtypes} == {"float32"}
    assert any(s.epilogue == "bias_relu" for s in drawn if s.dtype == "int8")
    assert not any("gelu" in s.epilogue for s in drawn if s.dtype == "int8")


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_an_operator_without_the_dtype_is_left_out(dtype: str) -> None:
    drawn = draw("prior", 40, dtype=dtype, operators={"softmax": 1, "dense": 1})
    assert {settings.operator for settings in drawn} == {"dense"}
    assert {settings.dtype for settings in drawn} == {dtype}


def test_batches_and_channels_last_come_as_asked() -> None:
    options: dict[str, Any] = {"operators": {"conv2d": 1}}
    plain = draw("zoo", 50, batches=[1], channels_last=0, **options)
    assert {s.batch for s in plain if isinstance(s, SlidingWindow)} == {1}
    assert {s.layout for s in plain if isinstance(s, SlidingWindow)} == {"NCHW"}
    mixed = draw("uniform", 400, batches=[1, 4], channels_last=0.5, max_flops=1e12, **options)
    batches = Counter(s.batch for s in mixed if isinstance(s, SlidingWindow))
    layouts = Counter(s.layout for s in mixed if isinstance(s, SlidingWindow))
    assert set(batches) == {1, 4}
    assert set(layouts) == {"NCHW", "NHWC"}
    # A standard deviation is 10; large draws of four times the batch are over the limit of operations.
    assert all(abs(count - 200) < 4 * 10 for count in layouts.values())
    assert batches[4] > 100
    rows = {s.rows for s in draw("zoo", 30, operators={"dense": 1}, batches=[7]) if isinstance(s, Dense)}
    assert all(count % 7 == 0 for count in rows)


def test_weights_are_packed_as_asked() -> None:
    drawn = draw("uniform", 200, operators={"conv2d": 1, "softmax": 1}, prepack=1.0)
    assert {settings.prepack for settings in drawn if settings.operator == "conv2d"} == {True}
    assert {settings.prepack for settings in drawn if settings.operator == "softmax"} == {False}
    half = Counter(s.prepack for s in draw("uniform", 400, operators={"dense": 1}, prepack=0.5))
    assert all(abs(count - 200) < 4 * 10 for count in half.values())


def test_shapes_of_another_dataset_are_left_out(tmp_path: Path) -> None:
    options: dict[str, Any] = {"operators": {"conv2d": 1, "dense": 1}}
    known = draw("prior", 30, **options)
    store = RecordStore(tmp_path)
    with store.writing():
        store.append_tasks([task_row(to_task(settings)) for settings in known])
    shapes = {shape_of(s) for s in known}
    again = draw("prior", 30, unlike=tmp_path, **options)
    assert not shapes & {shape_of(s) for s in again}
    # The same draws otherwise, which would have been the known ones.
    assert shapes == {shape_of(s) for s in draw("prior", 30, **options)}


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
        ({"sampler": "random"}, r"sampler='random': use one of prior, uniform, zoo, random_networks"),
        ({"operators": {"conv9d": 1}}, r"operators: operator='conv9d': use one of conv2d"),
        ({"dtype": "int4"}, r"dtype=int4: none of conv2d, .* has it; they have float32, float16, int8"),
        ({"dtype": {"float32": 0}}, r"dtype=.*give shares of at least 0, and one above 0"),
        ({"batches": []}, r"batches=\[\]: give whole numbers of at least 1"),
        ({"batches": [0]}, r"batches=\[0\]: give whole numbers of at least 1"),
        ({"channels_last": 2}, r"channels_last=2: give a share from 0 to 1"),
        ({"prepack": -1}, r"prepack=-1: give a share from 0 to 1"),
        ({"operators": {"conv2d": 0.0}}, r"give shares of at least 0, and one above 0"),
        ({"operators": {"conv2d": 2.0, "dense": -1.0}}, r"give shares of at least 0"),
        ({"operators": {}}, r"give shares of at least 0"),
        ({"n": 0}, r"n=0: draw at least 1 task"),
        ({"min_flops": 10, "max_flops": 5}, r"min_flops=10, max_flops=5: give 0 <= min <= max"),
        ({"max_flops": 2, "min_flops": 1, "operators": {"conv3d": 1}},
         r"the prior sampler found nothing new of conv3d in 5000 draws; ask for fewer tasks"),
        ({"table": Path("none.csv")}, r"none.csv: no such file"),
    ],
)  # fmt: skip
def test_bad_requests_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_tasks(**{"n": 3, "seed": 0, **options})


def test_a_table_that_runs_dry_says_so(tmp_path: Path) -> None:
    rows = [
        ZooRow(Dense(rows=64, in_features=64, out_features=width), 1, 1, ("net",), ()) for width in (64, 128)
    ]
    write_zoo_table(rows, tmp_path / "two.csv")
    options: dict[str, Any] = {
        "seed": 0, "operators": {"dense": 1}, "batches": [1], "table": tmp_path / "two.csv"
    }  # fmt: skip
    assert len(sample_tasks("zoo", n=2, **options)) == 2
    with pytest.raises(TaskSamplingError, match=r"the zoo sampler found nothing new of dense in 5000 draws"):
        sample_tasks("zoo", n=3, **options)
    with pytest.raises(TaskSamplingError, match=r"operator=conv2d: the table has none; use sampler=uniform"):
        sample_tasks("zoo", n=1, **{**options, "operators": {"conv2d": 1}})


def test_an_operator_that_runs_dry_leaves_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [
        ZooRow(Dense(rows=64, in_features=64, out_features=64), 1, 1, ("net",), ()),
        *(ZooRow(Softmax(rows=640, columns=64 + i), 1, 1, ("net",), ()) for i in range(9)),
    ]
    write_zoo_table(rows, tmp_path / "few.csv")
    operators = {"dense": 0.9, "softmax": 0.1}
    drawn = draw("zoo", 10, operators=operators, batches=[1], table=tmp_path / "few.csv")
    assert Counter(s.operator for s in drawn) == {"dense": 1, "softmax": 9}
    assert "sampler=zoo: no new dense in 5000 draws; going on with the other operators" in caplog.text


def test_tasks_described_by_their_arguments_are_no_obstacle_to_drawing_unlike_a_dataset():
    """data/cpu-zen5 has capsule convolutions whose settings are their arguments alone."""
    found = sampling._shapes_in(ROOT / "data" / "cpu-zen5")
    assert "conv2d" in {settings.operator for settings in found}
    assert "capsule_conv2d" not in {settings.operator for settings in found}
