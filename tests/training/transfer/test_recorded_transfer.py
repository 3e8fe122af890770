"""Few-shot transfer: similarity and choice of tasks, records of a device, split, and recovery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foretune.configuration import ConfigError
from foretune.models.scaling.normaliser import Normaliser
from foretune.training.fitting.feature_source import drafts_of
from foretune.training.transfer.recorded_transfer import (
    Recovery,
    TransferError,
    device_of,
    knows_backend,
    mean_recovery,
    of_device,
    of_tasks,
    split_target,
)
from foretune.training.transfer.task_choice import (
    METHODS,
    ChoiceConfig,
    TaskChoiceError,
    TaskProfiles,
    choose_tasks,
    spearman_similarity,
)
from support.peak_memory import peak_bytes
from support.synthetic import dataset


def profiles(values):
    values = np.array(values, dtype=np.float64)
    names = np.array([f"task{i:03d}" for i in range(len(values))])
    return TaskProfiles(names, np.full(len(values), "dense"), np.ones(len(values), dtype=np.int64), values)


def with_tasks(data, features):
    """Dataset whose tasks have the given features [tasks, d], in order."""
    _, task_of = np.unique(data.workload_hash, return_inverse=True)
    table = replace(data.features, task=np.array(features, dtype=np.float32)[task_of])
    return replace(data, features=table)


# --- similarity


def test_similarity_is_spearmans_rank_correlation():
    # Ranks 1 2 3 4 against 2 1 4 3: rho = 1 - 6 * (1 + 1 + 1 + 1) / (4 * (16 - 1)) = 0.6.
    similarity = spearman_similarity(profiles([[0, 1, 5, 9], [2, 1, 8, 4], [9, 5, 1, 0]]))
    np.testing.assert_allclose(similarity, [[1, 0.6, -1], [0.6, 1, -0.6], [-1, -0.6, 1]], atol=1e-12)


def test_ties_share_their_rank_and_a_flat_task_is_like_no_other():
    # Ranks 1.5 1.5 3 against 1 2 3: centred (-.5 -.5 1), (-1 0 1): 1.5 / sqrt(1.5 * 2).
    similarity = spearman_similarity(profiles([[0, 0, 7], [1, 2, 3], [4, 4, 4]]))
    assert similarity[0, 1] == pytest.approx(1.5 / np.sqrt(3.0))
    np.testing.assert_array_equal(similarity[2], [0, 0, 1])


def test_profiles_are_standardised_and_drop_what_no_task_differs_in():
    data = with_tasks(dataset(tasks=3, per_task=2), [[1, 5, 0], [2, 5, 0], [3, 5, 6]])
    found = TaskProfiles.of(data)
    assert found.workload_hash.tolist() == ["task000", "task001", "task002"]
    assert found.records.tolist() == [2, 2, 2]
    half, third = np.sqrt(1.5), np.sqrt(0.5)
    np.testing.assert_allclose(found.values, [[-half, -third], [0, -third], [half, 2 * third]])


def test_tasks_are_compared_by_their_programs_where_asked_to():
    data = dataset(tasks=4, per_task=5)
    task, programs = TaskProfiles.of(data), TaskProfiles.of(data, ["decisions", "stores"])
    assert programs.values.shape[1] > task.values.shape[1]
    counts = np.diff(data.features.decision_offsets)[data.workload_hash == "task002"]
    all_counts = np.diff(data.features.decision_offsets).reshape(4, 5).mean(axis=1)
    expected = (counts.mean() - all_counts.mean()) / all_counts.std()
    assert programs.values[2, 0] == pytest.approx(expected)
    both = TaskProfiles.of(data, ["task", "decisions", "stores"])
    assert both.values.shape[1] == task.values.shape[1] + programs.values.shape[1]


def test_token_features_are_averaged_a_few_tokens_at_a_time(monkeypatch):
    monkeypatch.setattr("foretune.training.transfer.task_choice._CHUNK", 50)
    data = dataset(tasks=3, per_task=400)
    data = data.take(np.random.default_rng(0).permutation(len(data)))  # tasks share chunks
    assert peak_bytes(lambda: TaskProfiles.of(data, ["stores"])) < data.features.stores.nbytes / 2
    found = TaskProfiles.of(data, ["stores"])
    task = np.repeat(data.workload_hash, np.diff(data.features.store_offsets))
    shrunk = np.sign(data.features.stores) * np.log1p(np.abs(data.features.stores))
    means = np.array([shrunk[task == name].mean(axis=0, dtype=np.float64) for name in np.unique(task)])
    expected = (means - means.mean(axis=0)) / means.std(axis=0)
    np.testing.assert_allclose(found.values[:, 1:], expected, rtol=1e-4)  # after the number of stores


@pytest.mark.parametrize("kind", ["stores", "decisions"])
def test_a_draft_model_compares_tasks_by_no_stores_or_decisions(kind):
    drafts = drafts_of(dataset(tasks=3, per_task=2))
    with pytest.raises(ConfigError, match=rf"choice\.features=.*reads no {kind}"):
        TaskProfiles.of(drafts, ["task", kind])


def test_no_latency_has_a_part_in_profiles():
    data = dataset(tasks=4, per_task=5)
    kinds = ["task", "decisions", "stores"]
    slower = replace(data, latency_s=data.latency_s[::-1] * 7)
    np.testing.assert_array_equal(TaskProfiles.of(data, kinds).values, TaskProfiles.of(slower, kinds).values)


@pytest.mark.parametrize("kinds", [[], ["tasks"], ["task", "latency"]])
def test_unknown_kinds_of_features_are_refused(kinds):
    with pytest.raises(ConfigError, match=r"choice\.features=.*task, decisions, stores"):
        TaskProfiles.of(dataset(tasks=2, per_task=2), kinds)


# --- choice

# Two large groups of similar tasks, and one task that differs. Ranks of features agree within a group.
GROUPS = [[0, 1, 9, 8], [0, 1, 9, 7], [0, 1, 8, 7], [9, 8, 1, 0], [9, 7, 1, 0], [5, -5, 5, -5]]


def test_fasor_takes_one_task_of_each_cluster_the_largest_first():
    data = with_tasks(dataset(tasks=6, per_task=2), GROUPS)
    chosen = choose_tasks(data, ChoiceConfig(k=3))
    groups = [{"task000", "task001", "task002"}, {"task003", "task004"}, {"task005"}]
    assert [name in group for name, group in zip(chosen, groups, strict=True)] == [True, True, True]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 4, 7])
def test_every_method_takes_k_different_tasks(method, k):
    data = dataset(tasks=7, per_task=3)
    chosen = choose_tasks(data, ChoiceConfig(k=k, method=method))
    assert len(chosen) == len(set(chosen)) == k
    assert set(chosen) <= set(data.workload_hash)
    assert choose_tasks(data, ChoiceConfig(k=k, method=method)) == chosen


@pytest.mark.parametrize("method", METHODS)
def test_tasks_of_equal_features_can_all_be_taken(method):
    data = with_tasks(dataset(tasks=4, per_task=2), [[1, 2, 3]] * 4)
    assert len(choose_tasks(data, ChoiceConfig(k=4, method=method))) == 4
    one = dataset(tasks=1, per_task=2)
    assert choose_tasks(one, ChoiceConfig(k=1, method=method)) == ["task000"]


def test_the_seed_decides_a_random_choice_alone():
    data = dataset(tasks=20, per_task=2)
    drawn = {tuple(choose_tasks(data, ChoiceConfig(k=5, method="random", seed=seed))) for seed in range(5)}
    assert len(drawn) == 5
    assert len({tuple(choose_tasks(data, ChoiceConfig(k=5, seed=seed))) for seed in range(3)}) == 1


def test_impossible_choices_are_refused():
    with pytest.raises(TaskChoiceError, match=r"choice\.k=5, but there are 3 task"):
        choose_tasks(dataset(tasks=3, per_task=2), ChoiceConfig(k=5))
    with pytest.raises(ConfigError, match=r"choice\.k=0"):
        ChoiceConfig(k=0)
    with pytest.raises(ConfigError, match=r"choice\.method='best'.*fasor, k_means, random"):
        ChoiceConfig(method="best")


# --- records of a device and of tasks


def two_devices():
    data = dataset(tasks=6, per_task=4)
    return replace(data, hardware_id=np.where(np.arange(len(data)) % 2, "new", "old"))


def test_the_device_is_named_or_the_only_one():
    data = two_devices()
    assert device_of(data, "new") == "new"
    assert device_of(of_device(data, "old"), None) == "old"
    assert len(of_device(data, "new")) == 12
    with pytest.raises(TransferError, match=r"new \(12 records\), old \(12 records\): name one"):
        device_of(data, None)
    with pytest.raises(TransferError, match=r"hardware='newer'.*new \(12 records\)"):
        device_of(data, "newer")


def test_records_are_of_the_tasks_and_so_many_of_each():
    data = dataset(tasks=6, per_task=4)
    names = ["task001", "task004"]
    assert of_tasks(data, names).workload_hash.tolist() == ["task001"] * 4 + ["task004"] * 4
    few = of_tasks(data, names, records_per_task=3, seed=1)
    assert few.workload_hash.tolist() == ["task001"] * 3 + ["task004"] * 3
    assert set(few.latency_s) < set(of_tasks(data, names).latency_s)
    others = [of_tasks(data, names, records_per_task=2, seed=seed).latency_s.tolist() for seed in range(6)]
    assert len(set(map(tuple, others))) > 1
    assert len(of_tasks(data, names, records_per_task=99)) == 8


def test_tasks_without_records_are_refused():
    data = dataset(tasks=2, per_task=2)
    with pytest.raises(TransferError, match="1 of 2 tasks has no record, the first being task009"):
        of_tasks(data, ["task000", "task009"])
    with pytest.raises(TransferError, match="records_per_task=0"):
        of_tasks(data, ["task000"], 0)
    failed = replace(data, latency_s=np.full(4, np.inf))
    with pytest.raises(TransferError, match="no record of 1 task ran"):
        of_tasks(failed, ["task000"])


def on(data, gpu):
    """Dataset with the first hardware feature, which is 1 for a GPU, set for each row."""
    hardware = data.features.hardware.copy()
    hardware[:, 0] = gpu
    return replace(data, features=replace(data.features, hardware=hardware))


@pytest.mark.parametrize(
    ("trained_on_gpu", "cpu_known", "gpu_known"),
    [([0, 0, 0, 0], True, False), ([1, 1, 1, 1], False, True), ([0, 1, 0, 0], True, True)],
)
def test_a_model_of_cpus_knows_no_gpu(trained_on_gpu, cpu_known, gpu_known):
    data = dataset(tasks=2, per_task=2)
    normaliser = Normaliser.fit(on(data, trained_on_gpu).features, np.arange(4))
    assert knows_backend(normaliser, on(data, 0)) is cpu_known
    assert knows_backend(normaliser, on(data, 1)) is gpu_known


# --- the split


def test_test_tasks_are_in_no_pool_and_no_source():
    data = dataset(tasks=12, per_task=2)
    source = ["task000", "task003", "task007", "elsewhere"]
    split = split_target(data, source, test=1 / 3, seed=0)
    assert len(split.test) == 4
    assert not set(split.test) & {*split.pool, *source}
    assert sorted([*split.pool, *split.test]) == np.unique(data.workload_hash).tolist()
    assert split_target(data, source, test=1 / 3, seed=0) == split
    assert split_target(data, source, test=1 / 3, seed=1).test != split.test


def test_a_device_with_known_tasks_alone_cannot_be_tested_on():
    data = dataset(tasks=3, per_task=2)
    with pytest.raises(TransferError, match="the source was trained on all tasks of the new device"):
        split_target(data, np.unique(data.workload_hash).tolist(), test=0.3, seed=0)


# --- recovery


def test_recovery_by_hand():
    # From 0.60 to 0.69 with 0.70 possible: nine tenths of the gap, 69/70 of the full value.
    found = Recovery.of(none=0.60, few=0.69, full=0.70)
    assert found.of_gap == pytest.approx(0.9)
    assert found.of_full == pytest.approx(69 / 70)
    assert Recovery.of(none=0.5, few=0.4, full=0.6).of_gap == pytest.approx(-1.0)


def test_recovery_is_undefined_where_there_is_nothing_to_recover():
    assert Recovery.of(none=0.7, few=0.8, full=0.7) == Recovery(None, pytest.approx(8 / 7))
    assert Recovery.of(none=-0.2, few=0.1, full=-0.1) == Recovery(pytest.approx(3.0), None)
    assert Recovery.of(none=float("nan"), few=0.1, full=0.3) == Recovery(None, None)


def test_recovery_over_seeds_is_of_the_means():
    found = mean_recovery(none=[0.5, 0.5], few=[0.6, 0.8], full=[0.9, 0.9])
    assert found.of_gap == pytest.approx(0.5)
    assert found.of_full == pytest.approx(0.7 / 0.9)
