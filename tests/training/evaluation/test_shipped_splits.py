"""Splits of the shipped checkpoints on the bundled tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig, split_rows
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.task_shapes import shape_hash
from foretune.models.checkpoints.checkpoint import load_checkpoint, shipped_checkpoints
from foretune.training.evaluation.task_scores import part_rows
from foretune.training.fitting.known_split import split_like_checkpoint
from support.paths import ROOT
from support.synthetic import dataset

from benchmarks.trained_on import CPUS

GPU_FOLDERS = ("gpu", "gpu-networks")
LEFT_OUT = {"cpu": 0, "cpu-draft": 0, "cpu-latency": 0, "cuda": 0, "cuda-draft": 0, "cuda-latency": 0}
"""Test tasks whose shape is among the training or validation tasks in another layout."""


@pytest.fixture(scope="module")
def data() -> LabelledFeatures:
    """One made-up record of every task of the bundled datasets of CPUs."""
    return one_of_each_task(CPUS)


@pytest.fixture(scope="module")
def gpu_data() -> LabelledFeatures:
    """One made-up record of every task of the bundled datasets of a GPU."""
    return one_of_each_task(GPU_FOLDERS)


def one_of_each_task(folders: Sequence[str]) -> LabelledFeatures:
    """One made-up record of every task of some datasets, with its own hash, shape and operator."""
    tasks = {}
    for folder in folders:
        for task in RecordStore(ROOT / "data" / folder).tasks():
            tasks.setdefault(task.workload_hash, task)
    return replace(
        dataset(tasks=1, per_task=len(tasks)),
        workload_hash=np.array(list(tasks)),
        shape=np.array([shape_hash(task) for task in tasks.values()]),
        operator=np.array([task.operator for task in tasks.values()]),
        source=np.array([task.source for task in tasks.values()]),
    )


def shapes(data: LabelledFeatures, tasks: list[str]) -> set[str]:
    return set(data.shape[np.isin(data.workload_hash, tasks)])


@pytest.mark.parametrize("name", LEFT_OUT)
def test_no_shape_that_is_tested_on_was_trained_on(
    data: LabelledFeatures, gpu_data: LabelledFeatures, name: str
) -> None:
    data = gpu_data if name.startswith("cuda") else data
    split = load_checkpoint(name).card.split
    tested = data.workload_hash[part_rows(split, data, "test")]
    assert len(split.test_tasks) - len(tested) == LEFT_OUT[name]
    assert not shapes(data, tested.tolist()) & shapes(data, split.seen_tasks)
    # The shapes on the card give the same result if the dataset lacks the training tasks.
    alone = data.take(np.flatnonzero(np.isin(data.workload_hash, split.test_tasks)))
    assert set(alone.workload_hash[part_rows(split, alone, "test")]) == set(tested)


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_each_shipped_checkpoint_is_covered(name: str) -> None:
    assert name in LEFT_OUT


def test_gpu_checkpoints_are_tested_on_networks_alone() -> None:
    networks = {task.workload_hash for task in RecordStore(ROOT / "data" / "gpu-networks").tasks()}
    for name in ("cuda", "cuda-draft", "cuda-latency"):
        split = load_checkpoint(name).card.split
        assert len(split.test_tasks) == 46 and set(split.test_tasks) <= networks
        assert not set(split.seen_tasks) & networks


@pytest.mark.parametrize("by", [{"by": "task"}, {"by": "checkpoint", "checkpoint": "cpu"}])
def test_a_split_of_the_bundled_tasks_has_each_shape_in_one_part(
    data: LabelledFeatures, by: dict[str, str]
) -> None:
    split = split_rows(data, split_like_checkpoint(SplitConfig(**by), data))
    train, validation, test = (set(data.shape[split.part(part)]) for part in ("train", "validation", "test"))
    assert not train & validation and not train & test and not validation & test
    assert len(test) > 200 and len(validation) > 200
