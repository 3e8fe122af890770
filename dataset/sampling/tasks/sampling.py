"""Sampling of tasks to measure: prior-guided (PGS of One-Shot Tuner, section 4.1.1), and its alternatives.

One-Shot Tuner compares PGS with uniform draws and with the zoo itself (section 6.3.2, Table 4); Fasor
(section 7.1) adds random networks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ....compiler.operators import (
    OPERATOR_SETTINGS,
    OperatorSettings,
    SettingsError,
    settings_class,
    settings_from_dict,
    to_task,
)
from ....compiler.task import Task
from ....errors import UserError
from ...records.stored_tasks import stored_rows
from ...records.task_shapes import shape_of
from ..zoo.table import ZOO_TABLE, ZooRow
from .derived import PriorTable, prior_table
from .prior import sample_uniform
from .random_networks import RandomNetworks

Sampler: TypeAlias = Callable[[str, np.random.Generator], OperatorSettings]
"""Draws settings of the named operator with an epilogue, in float32, channels first and of batch 1."""

DEFAULT_BATCHES = (1, 1, 1, 2, 4, 8)
"""Factors of a batch of 1, each equally likely. Zoos run one input at a time, and so do most users who serve
a network; throughput is tuned at small powers of two."""

DEFAULT_CHANNELS_LAST = 0.5
"""Share of tasks with channels last among operators that have both layouts: tuning on CPUs uses this layout,
while zoos have channels first."""

DEFAULT_PREPACK = 0.5
"""Share of tasks that choose the layout of their weight among operators that can, as networks on CPUs do."""

MAX_REDRAWS = 5000
"""Consecutive draws of one operator without a new task within the limits, before it is left out."""

log = logging.getLogger(__name__)


class TaskSamplingError(UserError, ValueError):
    """Tasks cannot be drawn as requested."""


def default_operators() -> dict[str, float]:
    """Share of each operator in the default mix; those of the shipped operators add up to 1."""
    return {name: cls.share for name, cls in OPERATOR_SETTINGS.items() if cls.share > 0}


def sample_tasks(
    sampler: str = "prior",
    *,
    n: int,
    seed: int,
    operators: Mapping[str, float] | None = None,
    min_flops: float = 1e5,
    max_flops: float = 4e9,
    hold_out_evaluation: bool = True,
    exclude: Collection[str] = (),
    dtype: str | Mapping[str, float] = "float32",
    batches: Sequence[int] = DEFAULT_BATCHES,
    channels_last: float = DEFAULT_CHANNELS_LAST,
    prepack: float = DEFAULT_PREPACK,
    unlike: str | Path | None = None,
    table: Path = ZOO_TABLE,
) -> list[Task]:
    """Draws `n` tasks, no two of the same shape. A larger `n` begins with the tasks of a smaller one.

    Args:
        sampler: one of SAMPLERS.
        operators: share of each operator type; shares need not add up to 1. None is the default mix.
        min_flops: fewest operations of the operator without padding and epilogue (a multiply-add is two).
        max_flops: most operations; measuring a large task takes the time of many small ones.
        hold_out_evaluation: leave out every shape that an evaluation network of the table has.
        exclude: workload hashes of tasks to leave out.
        dtype: data type of all tasks, or shares of several. An operator draws among its supported types; an
            operator that supports none of them is left out.
        batches: factors of a sampler's batches, drawn uniformly.
        channels_last: share of tasks with channels last among operators that have both layouts.
        prepack: share of tasks that choose the layout of their weight among operators that can.
        unlike: folder of a dataset whose shapes are left out.

    Raises TaskSamplingError.
    """
    if n < 1:
        raise TaskSamplingError(f"n={n}: draw at least 1 task")
    drawn = sample_settings(
        sampler,
        seed=seed,
        operators=operators,
        min_flops=min_flops,
        max_flops=max_flops,
        hold_out_evaluation=hold_out_evaluation,
        dtype=dtype,
        batches=batches,
        channels_last=channels_last,
        prepack=prepack,
        unlike=unlike,
        table=table,
    )
    excluded = frozenset(exclude)
    tasks = (task for task in map(to_task, drawn) if task.workload_hash not in excluded)
    return list(islice(tasks, n))


def sample_settings(
    sampler: str = "prior",
    *,
    seed: int,
    operators: Mapping[str, float] | None = None,
    min_flops: float = 1e5,
    max_flops: float = 4e9,
    hold_out_evaluation: bool = True,
    dtype: str | Mapping[str, float] = "float32",
    batches: Sequence[int] = DEFAULT_BATCHES,
    channels_last: float = DEFAULT_CHANNELS_LAST,
    prepack: float = DEFAULT_PREPACK,
    unlike: str | Path | None = None,
    table: Path = ZOO_TABLE,
) -> Iterator[OperatorSettings]:
    """Settings of the tasks that `sample_tasks` draws, until no operator has new ones.

    An operator without new settings is skipped with a warning. Raises TaskSamplingError.
    """
    operators = default_operators() if operators is None else operators
    if not 0 <= min_flops <= max_flops:
        raise TaskSamplingError(f"min_flops={min_flops:g}, max_flops={max_flops:g}: give 0 <= min <= max")
    if not batches or any(not isinstance(batch, int) or batch < 1 for batch in batches):
        raise TaskSamplingError(f"batches={list(batches)}: give whole numbers of at least 1")
    for name, share in (("channels_last", channels_last), ("prepack", prepack)):
        if not 0 <= share <= 1:
            raise TaskSamplingError(f"{name}={share}: give a share from 0 to 1")
    dtypes = {dtype: 1.0} if isinstance(dtype, str) else dtype
    _weights("dtype", dtypes)
    dtypes = {name: share for name, share in dtypes.items() if share > 0}
    possible = _with_dtypes(operators, dtypes)
    zoo = prior_table(table)
    draw = _make_sampler(sampler, zoo)
    rng = np.random.default_rng(seed)
    taken = set(zoo.evaluation_shapes) if hold_out_evaluation else set()
    if unlike is not None:
        taken |= _shapes_in(unlike)

    def is_new(settings: OperatorSettings) -> bool:
        return min_flops <= settings.flops <= max_flops and shape_of(settings) not in taken

    while possible:
        operator = str(rng.choice(list(possible), p=_weights("operators", possible)))
        draws = (draw(operator, rng).enlarged(int(rng.choice(batches))) for _ in range(MAX_REDRAWS))
        settings = next(filter(is_new, draws), None)
        if settings is not None:
            taken.add(shape_of(settings))
            yield _draw_layout(_draw_dtype(settings, dtypes, rng), channels_last, prepack, rng)
        else:
            del possible[operator]
            log.warning(
                "sampler=%s: no new %s in %d draws; going on with the other operators",
                sampler, operator, MAX_REDRAWS,
            )  # fmt: skip
    raise TaskSamplingError(
        f"the {sampler} sampler found nothing new of {', '.join(operators)} in {MAX_REDRAWS} draws; ask for "
        f"fewer tasks, or wider limits of flops than {min_flops:g} to {max_flops:g}"
    )


SAMPLERS = ("prior", "uniform", "zoo", "random_networks")
"""Prior-guided; every setting uniform; rows of the table; operators of random networks."""


def _make_sampler(name: str, zoo: PriorTable) -> Sampler:
    samplers: Mapping[str, Callable[[], Sampler]] = {
        "prior": lambda: zoo.prior.sample,
        "uniform": lambda: sample_uniform,
        "zoo": lambda: _ZooSampler(zoo.rows),
        "random_networks": lambda: RandomNetworks().sample,
    }
    if name not in samplers:
        raise TaskSamplingError(f"sampler={name!r}: use one of {', '.join(SAMPLERS)}")
    return samplers[name]()


class _ZooSampler:
    """Draws rows of the table by the number of networks that have them."""

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


def _with_dtypes(operators: Mapping[str, float], dtypes: Mapping[str, float]) -> dict[str, float]:
    """Positive shares of the operators that support one of the data types."""
    _weights("operators", operators)
    try:
        possible = {
            name: share
            for name, share in operators.items()
            if share > 0 and not dtypes.keys().isdisjoint(settings_class(name).dtypes)
        }
    except SettingsError as error:
        raise TaskSamplingError(f"operators: {error}") from error
    if not possible:
        raise TaskSamplingError(
            f"dtype={', '.join(dtypes)}: none of {', '.join(operators)} has it; they have "
            f"{', '.join(dict.fromkeys(d for name in operators for d in settings_class(name).dtypes))}"
        )
    return possible


def _weights(field: str, shares: Mapping[str, float]) -> np.ndarray:
    weights = np.array(list(shares.values()), dtype=np.float64)
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise TaskSamplingError(f"{field}={dict(shares)}: give shares of at least 0, and one above 0")
    return weights / weights.sum()


def _draw_dtype(
    settings: OperatorSettings, dtypes: Mapping[str, float], rng: np.random.Generator
) -> OperatorSettings:
    """A data type of the operator, with as many steps of the epilogue as the type allows."""
    possible = {dtype: share for dtype, share in dtypes.items() if dtype in settings.dtypes}
    dtype = str(rng.choice(list(possible), p=_weights("dtype", possible)))
    steps = settings.epilogue.split("_")
    while steps:
        try:
            return replace(settings, dtype=dtype, epilogue="_".join(steps))
        except SettingsError:  # integers have no GELU
            steps.pop()
    return replace(settings, dtype=dtype, epilogue="none")


def _draw_layout(
    settings: OperatorSettings, channels_last: float, prepack: float, rng: np.random.Generator
) -> OperatorSettings:
    """Channels first or last, and whether a program chooses the layout of the weight."""
    changes: dict[str, Any] = {}
    if len(settings.layouts) > 1:
        changes["layout"] = settings.layouts[int(rng.random() < channels_last)]
    if settings.packable:
        changes["prepack"] = bool(rng.random() < prepack)
    return replace(settings, **changes)


def _shapes_in(folder: str | Path) -> set[OperatorSettings]:
    """Shapes of the sampled tasks of a dataset, without tasks that are described by their arguments alone."""
    described = (
        (row.operator, json.loads(row.settings))
        for row in stored_rows(Path(folder))
        if row.source == "operator"
    )
    return {
        shape_of(settings_from_dict(operator, settings))
        for operator, settings in described
        if "arguments" not in settings
    }
