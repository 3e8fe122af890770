"""Drawing of the pools: a dataset of whole networks, for tests only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.operators import OPERATOR_SETTINGS, settings_from_dict
from foretune.dataset import generate
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.generation.summary import GenerateSummary
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.task_shapes import shape_of
from foretune.dataset.sampling.programs import EvolutionaryConfig, ProgramSamplingConfig
from foretune.dataset.sampling.tasks.derived import prior_table
from foretune.dataset.sampling.zoo.table import ZOO_TABLE
from foretune.errors import UserError

NETWORKS = ("resnet50", "mobilenetv2", "resnext50", "bert_base", "bert_tiny")
"""TenSet's test set, of batch 1, with images of 224 x 224 and sequences of 128 tokens."""

PER_ROUND = 50

SAMPLING = ProgramSamplingConfig(
    random_share=0.5, evolutionary=EvolutionaryConfig(population_size=128, generations=3)
)
"""As in TenSet, half of the programs are random, and a cost model that learns on the way evolves the rest."""


class PoolsError(UserError, ValueError):
    """Pools cannot be extended, or cannot be tested on."""


def draw(
    folder: Path,
    networks: Sequence[Any],
    programs: int,
    *,
    most: int | None = None,
    minutes: float | None = None,
    samplers: int | None = None,
) -> GenerateSummary:
    """Measures programs until each task has `programs` valid ones; a later call continues or extends.

    A task ends earlier if its space has no more programs, or if half of its programs fail.

    Args:
        folder: dataset of the pools.
        networks: entries of `networks` in conf/generate.yaml.
        programs: valid programs of each task.
        most: programs that this call measures, about; None sets no limit.
        minutes: duration of this call; None sets no limit.
        samplers: see conf/generate.yaml.
    """
    summary = generate.run(
        GenerateConfig(
            dataset=folder,
            networks=list(networks),
            records_per_task=programs,
            only_valid=True,
            per_round=PER_ROUND,
            task_budget_s=math.inf,
            budget_s=None if minutes is None else 60 * minutes,
            max_records=most,
            samplers=samplers,
            seed=71,
            program_sampling=SAMPLING,
        )
    )
    check_held_out(RecordStore(folder).tasks())
    return summary


def check_pools(folder: Path, here: Hardware | None = None) -> Hardware:
    """Device of the pools; it must be the only one, and the installed TVM must have compiled all programs.

    With `here`, it must also be this device. Raises PoolsError.
    """
    store = RecordStore(folder).require().require_intact()
    rows = store.columns("hardware_id", "target", "tvm_version")
    found = {name: sorted(rows[name].unique().to_pylist()) for name in rows.column_names}
    for field, values in found.items():
        if len(values) != 1:
            raise PoolsError(
                f"{folder}: its programs have {len(values)} values of {field} "
                f"({', '.join(values) or 'none'}): draw the pools of each device in a folder of its own, "
                "with one TVM"
            )
    if found["tvm_version"] != [tvm.__version__]:
        raise PoolsError(
            f"{folder}: TVM {found['tvm_version'][0]} compiled its programs, and TVM {tvm.__version__} is "
            "installed: install that version, or draw the pools again in another folder"
        )
    device = store.hardware_of(found["hardware_id"])[found["hardware_id"][0]]
    if here is not None and here.hardware_id != device.hardware_id:
        raise PoolsError(
            f"{folder}: {device.name} ({device.hardware_id}) measured its programs, and this is {here.name} "
            f"({here.hardware_id}): give another folder to --pools"
        )
    return device


def check_apart(folder: Path, training: Iterable[Path]) -> None:
    """Raises PoolsError if a program of the pools is among the records of a training dataset, too."""
    own = set(RecordStore(folder).columns("key")["key"].to_pylist())
    for dataset in training:
        shared = own.intersection(RecordStore(dataset).columns("key")["key"].to_pylist())
        if shared:
            raise PoolsError(
                f"{folder}: {len(shared)} of its {len(own)} programs are in {dataset}, too, which models are "
                "trained on: pools are for tests only; remove them from one of the two"
            )


def check_held_out(tasks: Iterable[TaskRow]) -> None:
    """Raises PoolsError if `foretune generate` may sample the operator and shape of a task."""
    held_out = prior_table(ZOO_TABLE).evaluation_shapes
    for task in tasks:
        values = json.loads(task.settings)
        sampled = task.operator in OPERATOR_SETTINGS and "arguments" not in values
        if sampled and shape_of(settings_from_dict(task.operator, values)) not in held_out:
            raise PoolsError(
                f"{task.name} ({task.source}): foretune generate may sample its shape for training; add the "
                "network to evaluation_networks in dataset/sampling/zoo/networks.py, and run python -m "
                "foretune.dataset.sampling.zoo.crawl --mark"
            )
