"""Draws tasks to measure: prior-guided (PGS of One-Shot Tuner, section 4.1.1), uniform, or from the zoo.

The last two are what the paper compares its sampler with (section 6.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..errors import UserError
from .operators import (
    BatchMatmul,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    OperatorSettings,
    SettingsError,
    settings_class,
    to_task,
)
from .prior import Prior
from .task import Task
from .zoo_table import ZOO_TABLE, ZooRow, read_zoo_table

Sampler: TypeAlias = Callable[[str, np.random.Generator], OperatorSettings]
"""Draws settings of the named operator, without an epilogue."""

DEFAULT_OPERATORS: Mapping[str, float] = {
    "conv2d": 0.6,
    "depthwise_conv2d": 0.15,
    "dense": 0.15,
    "batch_matmul": 0.1,
}

EPILOGUES: Mapping[str, Mapping[str, float]] = {
    "conv2d": {
        "bias_relu": 0.5,
        "bias": 0.15,
        "bias_add_relu": 0.15,
        "bias_relu6": 0.08,
        "bias_add": 0.07,
        "none": 0.05,
    },
    "depthwise_conv2d": {"bias_relu": 0.5, "bias_relu6": 0.3, "bias": 0.15, "none": 0.05},
    "dense": {"bias": 0.6, "bias_relu": 0.2, "none": 0.15, "bias_gelu": 0.05},
    "batch_matmul": {"none": 1.0},
}
"""Shares of what follows an operator; a crawl sees calls one by one, so this is no statistic of the zoos."""

MAX_REDRAWS = 5000
"""Draws of one operator in a row with nothing new within the limits before giving up."""


class TaskSamplingError(UserError, ValueError):
    """Tasks cannot be drawn as asked."""


def sample_tasks(
    sampler: str = "prior",
    *,
    n: int,
    seed: int,
    operators: Mapping[str, float] = DEFAULT_OPERATORS,
    min_flops: float = 1e5,
    max_flops: float = 4e9,
    hold_out_evaluation: bool = True,
    exclude: Collection[str] = (),
    dtype: str = "float32",
    table: Path = ZOO_TABLE,
) -> list[Task]:
    """Draws `n` tasks, no two of which differ only in the epilogue. The first of many are those of few.

    Args:
        sampler: `prior`, `uniform` or `zoo`.
        operators: share of each operator type; shares need not add up to 1.
        min_flops: fewest operations of the operator without padding and epilogue (a multiply-add is two).
        max_flops: most operations; large tasks take the time of many small ones to measure.
        hold_out_evaluation: leave out every operator that an evaluation network of the table has.
        exclude: workload hashes of tasks to leave out.

    Raises TaskSamplingError.
    """
    if n < 1:
        raise TaskSamplingError(f"n={n}: draw at least 1 task")
    if not 0 <= min_flops <= max_flops:
        raise TaskSamplingError(f"min_flops={min_flops:g}, max_flops={max_flops:g}: give 0 <= min <= max")
    names, shares = _shares(operators)
    rows = read_zoo_table(table)
    draw = _make_sampler(sampler, rows)
    excluded = frozenset(exclude)
    rng = np.random.default_rng(seed)
    taken = {row.settings for row in rows if row.evaluation} if hold_out_evaluation else set()
    tasks: list[Task] = []
    while len(tasks) < n:
        operator = names[rng.choice(len(names), p=shares)]
        for _ in range(MAX_REDRAWS):
            settings = draw(operator, rng)
            if settings in taken or not min_flops <= settings.flops <= max_flops:
                continue
            taken.add(settings)
            task = to_task(replace(settings, epilogue=_draw_epilogue(operator, rng), dtype=dtype))
            if task.workload_hash not in excluded:
                tasks.append(task)
                break
        else:
            raise TaskSamplingError(
                f"n={n}: the {sampler} sampler found no new {operator} in {MAX_REDRAWS} draws, after "
                f"{len(tasks)} tasks; ask for fewer tasks, a smaller share of {operator}, or wider limits "
                f"of flops than {min_flops:g} to {max_flops:g}"
            )
    return tasks


def _shares(operators: Mapping[str, float]) -> tuple[Sequence[str], np.ndarray]:
    try:
        for name in operators:
            settings_class(name)
    except SettingsError as error:
        raise TaskSamplingError(f"operators: {error}") from error
    weights = np.array(list(operators.values()), dtype=np.float64)
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise TaskSamplingError(f"operators={dict(operators)}: give shares of at least 0, and one above 0")
    return list(operators), weights / weights.sum()


def _make_sampler(name: str, rows: Sequence[ZooRow]) -> Sampler:
    samplers: Mapping[str, Callable[[], Sampler]] = {
        "prior": lambda: Prior(rows).sample,
        "uniform": lambda: sample_uniform,
        "zoo": lambda: _ZooSampler(rows),
    }
    if name not in samplers:
        raise TaskSamplingError(f"sampler={name!r}: use one of {', '.join(samplers)}")
    return samplers[name]()


def _draw_epilogue(operator: str, rng: np.random.Generator) -> str:
    names, shares = zip(*EPILOGUES[operator].items(), strict=True)
    return str(rng.choice(names, p=shares))


class _ZooSampler:
    """Draws rows of the table, as often as networks have them."""

    def __init__(self, rows: Sequence[ZooRow]) -> None:
        self._rows: dict[str, list[ZooRow]] = {}
        for row in rows:
            if row.networks:
                self._rows.setdefault(row.settings.operator, []).append(row)
        self._shares = {}
        for operator, own in self._rows.items():
            weights = np.array([row.networks for row in own], dtype=np.float64)
            self._shares[operator] = weights / weights.sum()

    def __call__(self, operator: str, rng: np.random.Generator) -> OperatorSettings:
        if operator not in self._rows:
            raise TaskSamplingError(f"operator={operator}: the table has none; use sampler=uniform for it")
        rows = self._rows[operator]
        return rows[rng.choice(len(rows), p=self._shares[operator])].settings


def sample_uniform(operator: str, rng: np.random.Generator) -> OperatorSettings:
    """Every setting uniform over its range; a convolution's input is square and fits its window."""

    def up_to(most: int) -> int:
        return int(rng.integers(1, most, endpoint=True))

    if operator == "dense":
        return Dense(rows=up_to(512), in_features=up_to(4096), out_features=up_to(4096))
    if operator == "batch_matmul":
        return BatchMatmul(batch=up_to(32), rows=up_to(512), inner=up_to(512), columns=up_to(512))
    height, kernel, dilation = up_to(224), up_to(7), up_to(2)
    span = dilation * (kernel - 1) + 1
    common: dict[str, Any] = {
        "batch": 1,
        "in_channels": up_to(1024),
        "height": max(height, span),
        "width": max(height, span),
        "kernel": kernel,
        "stride": up_to(2),
        "padding": int(rng.integers(0, kernel)),
        "dilation": dilation,
    }
    if operator == "depthwise_conv2d":
        return DepthwiseConv2d(**common)
    return Conv2d(**common, out_channels=up_to(1024))
