"""Splits that keep tasks in the parts that they had in an earlier training."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig, SplitError, split_rows
from foretune.models.checkpoints.card import SplitSummary
from foretune.training.fitting import known_split
from foretune.training.fitting.known_split import split_like_checkpoint
from support.synthetic import dataset


@pytest.fixture
def data() -> LabelledFeatures:
    """24 tasks of 2 records with different shapes, except that the last has the shape of the first."""
    found = dataset(tasks=24, per_task=2)
    names = np.unique(found.workload_hash)
    shape = np.where(found.workload_hash == names[-1], names[0], found.workload_hash)
    return replace(found, shape=shape)


@pytest.fixture(autouse=True)
def checkpoint(data: LabelledFeatures, monkeypatch: pytest.MonkeyPatch) -> SplitSummary:
    """Split of a checkpoint: three test tasks, then two validation tasks, then five training tasks."""
    names = np.unique(data.workload_hash).tolist()
    split = SplitSummary({"by": "task"}, names[5:10], names[3:5], names[:3])
    known = SimpleNamespace(card=SimpleNamespace(split=split))
    monkeypatch.setattr(known_split, "load_checkpoint", lambda name: known)
    return split


LIKE = SplitConfig(by="checkpoint", checkpoint="before", validation=0.25, test=0.25)


def test_known_tasks_stay_and_others_are_split_by_the_shares(
    data: LabelledFeatures, checkpoint: SplitSummary
) -> None:
    names = np.unique(data.workload_hash).tolist()
    split = split_like_checkpoint(LIKE, data)
    assert split.by == "list"
    test, validation = set(split.test_tasks), set(split.validation_tasks)
    assert test & set(names[:10]) == set(checkpoint.test_tasks)
    assert validation & set(names[:10]) == set(checkpoint.validation_tasks)
    assert names[-1] in test, "of the shape of one that is tested on"
    # A quarter of the 13 others each.
    assert len(test & set(names[10:23])) == len(validation & set(names[10:23])) == 3
    assert not test & validation
    rows = split_rows(data, split)
    assert set(data.workload_hash[rows.train]) >= set(checkpoint.train_tasks)


def test_the_seed_fixes_the_others(data: LabelledFeatures) -> None:
    assert split_like_checkpoint(LIKE, data) == split_like_checkpoint(LIKE, data)
    assert split_like_checkpoint(LIKE, data) != split_like_checkpoint(replace(LIKE, seed=1), data)


def test_a_shape_of_several_parts_is_not_tested_on(data: LabelledFeatures, checkpoint: SplitSummary) -> None:
    names = np.unique(data.workload_hash)
    shape = data.shape.copy()
    for task, of in ((1, 5), (2, 3), (4, 6)):  # test and train, test and validation, validation and train
        shape[data.workload_hash == names[task]] = names[of]
    split = split_like_checkpoint(LIKE, replace(data, shape=shape))
    test, validation = set(split.test_tasks), set(split.validation_tasks)
    assert test & set(names[:10]) == {names[0]}
    assert validation & set(names[:10]) == {names[2], names[3]}


def test_shapes_that_only_the_card_names_are_trained_on(
    data: LabelledFeatures, checkpoint: SplitSummary
) -> None:
    names = np.unique(data.workload_hash)
    checkpoint.seen_shapes.extend(names[10:18].tolist())
    split = split_like_checkpoint(LIKE, data)
    assert not {*split.test_tasks, *split.validation_tasks} & set(names[10:18])


def test_a_dataset_without_anything_new_is_split_as_it_was(data: LabelledFeatures) -> None:
    names = np.unique(data.workload_hash)[:10]
    old = data.take(np.flatnonzero(np.isin(data.workload_hash, names)))
    split = split_like_checkpoint(LIKE, old)
    assert (split.test_tasks, split.validation_tasks) == (names[:3].tolist(), names[3:5].tolist())


@pytest.mark.parametrize(("fresh", "tested"), [(1, 0), (2, 0), (3, 1)])
def test_new_tasks_that_are_too_few_to_share_are_trained_on(
    data: LabelledFeatures, fresh: int, tested: int
) -> None:
    names = np.unique(data.workload_hash)[: 10 + fresh]
    grown = data.take(np.flatnonzero(np.isin(data.workload_hash, names)))
    split = split_like_checkpoint(LIKE, grown)
    assert len(set(split.test_tasks) & set(names[10:])) == tested
    assert len(set(split.validation_tasks) & set(names[10:])) == tested
    assert set(split.test_tasks) >= set(names[:3]) and set(split.validation_tasks) >= set(names[3:5])


def test_a_dataset_of_something_else_is_refused(data: LabelledFeatures) -> None:
    other = data.take(np.flatnonzero(np.isin(data.workload_hash, np.unique(data.workload_hash)[10:20])))
    with pytest.raises(SplitError, match=r"split\.checkpoint=before: the dataset has none of the tasks"):
        split_like_checkpoint(LIKE, other)


def test_other_splits_come_back_as_they_are(data: LabelledFeatures) -> None:
    assert split_like_checkpoint(SplitConfig(), data) == SplitConfig()


@pytest.mark.parametrize("settings", [{"by": "checkpoint"}, {"by": "task", "checkpoint": "cpu"}])
def test_a_checkpoint_goes_with_its_split_alone(settings: dict[str, str]) -> None:
    with pytest.raises(SplitError, match="by=checkpoint needs one, and nothing else has one"):
        SplitConfig(**settings)
