"""Splits never put a task into two parts."""

from dataclasses import replace

import numpy as np
import pytest
from foretune.dataset.records.split import SplitConfig, SplitError, split_rows
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.synthetic import dataset


def parts(data, split):
    return [set(data.workload_hash[split.part(name)]) for name in ("train", "validation", "test")]


def assert_disjoint_and_complete(data, split):
    train, validation, test = parts(data, split)
    assert not train & validation and not train & test and not validation & test
    rows = np.concatenate([split.train, split.validation, split.test])
    assert sorted(rows.tolist()) == list(range(len(data)))


@settings(max_examples=30, deadline=None)
@given(tasks=st.integers(3, 40), seed=st.integers(0, 1000), share=st.floats(0.01, 0.45))
def test_parts_are_disjoint_by_task_and_cover_every_record(tasks, seed, share):
    data = dataset(tasks=tasks, per_task=2)
    assume(2 * max(round(share * tasks), 1) < tasks)  # something is left to train on
    split = split_rows(data, SplitConfig(validation=share, test=share, seed=seed))
    assert_disjoint_and_complete(data, split)
    assert all(len(split.part(name)) for name in ("train", "validation", "test"))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), shapes=st.lists(st.integers(0, 7), min_size=24, max_size=24))
def test_tasks_of_one_shape_stay_together(seed, shapes):
    data = dataset(tasks=24, per_task=2)
    names = dict(zip(np.unique(data.workload_hash).tolist(), shapes, strict=True))
    data = replace(data, shape=np.array([f"shape{names[task]}" for task in data.workload_hash]))
    try:
        split = split_rows(data, SplitConfig(validation=0.2, test=0.2, seed=seed))
    except SplitError as error:
        assume("leaves none to train on" not in str(error))
        raise
    assert_disjoint_and_complete(data, split)
    train, validation, test = (set(data.shape[split.part(name)]) for name in ("train", "validation", "test"))
    assert not train & validation and not train & test and not validation & test


def test_tasks_of_the_shape_of_one_that_was_seen_are_not_held_out():
    data = dataset(tasks=24, per_task=2)
    data = replace(data, shape=np.where(data.workload_hash == "task001", "task000", data.shape))
    for seed in range(20):
        split = split_rows(data, SplitConfig(test=0.4, validation=0.4, seed=seed), ["task000"])
        assert {"task000", "task001"} <= set(data.workload_hash[split.train])


def test_the_seed_fixes_the_split():
    data = dataset(tasks=30, per_task=2)
    first, again, other = (split_rows(data, SplitConfig(seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.test, again.test)
    np.testing.assert_array_equal(first.validation, again.validation)
    assert set(first.test) != set(other.test)


def test_shares_count_tasks_and_every_operator_is_held_out():
    data = dataset(tasks=60, per_task=3)
    split = split_rows(data, SplitConfig(validation=0.1, test=0.2))
    train, validation, test = parts(data, split)
    assert (len(train), len(validation), len(test)) == (42, 6, 12)
    assert set(data.operator[split.test]) == set(data.operator)


def test_records_of_one_task_on_two_devices_stay_together():
    data = dataset(tasks=9, per_task=4)
    data.hardware_id[::2] = "another-cpu"
    assert_disjoint_and_complete(data, split_rows(data, SplitConfig()))


def test_tasks_that_were_seen_before_are_never_held_out():
    data = dataset(tasks=24, per_task=2)
    seen = [f"task{number:03d}" for number in range(0, 24, 2)]
    split = split_rows(data, SplitConfig(test=0.3), seen)
    assert_disjoint_and_complete(data, split)
    assert set(seen) <= set(data.workload_hash[split.train])
    assert len(split_rows(data, SplitConfig(), sorted(set(data.workload_hash))).train) == len(data)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"by": "record"}, "split.by='record'"),
        ({"test": 1.5}, "split.test=1.5"),
        ({"test": 0.5, "validation": 0.5}, "leave nothing to train on"),
        ({"networks": ["bert"]}, "needs split.by=network"),
    ],
)
def test_settings_out_of_range_are_refused(config, message):
    with pytest.raises(SplitError, match=message):
        SplitConfig(**config)


def test_unusable_datasets_are_refused():
    one_task = dataset(tasks=1, per_task=5)
    with pytest.raises(SplitError, match=r"has 1 task,.*foretune generate"):
        split_rows(one_task, SplitConfig())
    assert len(split_rows(one_task, SplitConfig(validation=0, test=0)).train) == 5


def test_a_split_that_is_not_turned_into_a_list_is_an_error():
    for config in (SplitConfig(by="network"), SplitConfig(by="checkpoint", checkpoint="cpu")):
        with pytest.raises(ValueError, match="turned into a list first"):
            split_rows(dataset(tasks=4), config)


def test_an_empty_dataset_is_refused():
    data = dataset(tasks=1, per_task=2)
    empty = type(data)(data.features, *(getattr(data, n)[:0] for n in list(vars(data))[1:]))
    with pytest.raises(SplitError, match="no records"):
        split_rows(empty, SplitConfig())


def test_a_part_of_a_dataset_is_split_as_the_whole_was():
    data = dataset(tasks=12, per_task=4)
    listed = SplitConfig(by="list", test_tasks=["task003", "task007"], validation_tasks=["task000"])
    for part in (data, data.take(np.arange(40))):
        split = split_rows(part, listed)
        assert set(part.workload_hash[split.test]) == {"task003", "task007"}
        assert set(part.workload_hash[split.validation]) == {"task000"}
        assert len(split.train) + len(split.test) + len(split.validation) == len(part)


def test_listed_tasks_take_those_of_their_shapes_with_them():
    data = dataset(tasks=8, per_task=2)
    shape = data.shape.copy()
    for task, of in (("task004", "task003"), ("task005", "task000"), ("task001", "task003")):
        shape[data.workload_hash == task] = of
    listed = SplitConfig(by="list", test_tasks=["task003"], validation_tasks=["task000", "task001"])
    split = split_rows(replace(data, shape=shape), listed)
    assert set(data.workload_hash[split.test]) == {"task003", "task004", "task001"}
    assert set(data.workload_hash[split.validation]) == {"task000", "task005"}
    assert set(data.workload_hash[split.train]) == {"task002", "task006", "task007"}


@pytest.mark.parametrize(
    ("settings", "seen", "message"),
    [
        ({"test_tasks": ["task000"], "by": "task"}, (), "need split.by=list"),
        ({"test_tasks": ["task000"], "validation_tasks": ["task000"]}, (), "task000 is in test_tasks and in"),
        ({"test_tasks": ["task000", "other"]}, (), "no record of 1 of them, such as other"),
        ({"validation_tasks": ["task000"]}, ["task000"], "the model has seen 1 of them, such as task000"),
        ({"test_tasks": ["task000"], "validation_tasks": ["task001"]}, (), "leaves none to train on"),
    ],
)
def test_lists_that_do_not_fit_are_refused(settings, seen, message):
    with pytest.raises(SplitError, match=message):
        split_rows(dataset(tasks=2, per_task=2), SplitConfig(**{"by": "list", **settings}), seen)
