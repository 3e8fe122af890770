"""Networks of a dataset, and the split that holds them out."""

from dataclasses import replace

import numpy as np
import pytest
from foretune.dataset.records.network_weights import NetworksFileError
from foretune.dataset.records.split import SplitConfig, SplitError, split_rows
from foretune.training.evaluation.networks import evaluation_networks, split_by_networks
from hypothesis import assume, given
from hypothesis import settings as property_settings
from hypothesis import strategies as st
from support.synthetic import dataset


@pytest.fixture(scope="module")
def data():
    return dataset(tasks=16, per_task=12)


def test_networks_come_from_the_table_and_from_sources(tmp_path, data):
    (tmp_path / "networks.json").write_text('{"resnet": {"task003": 4, "gone": 1}, "tiny": {"task000": 2}}')
    networks = evaluation_networks(tmp_path, data)
    assert networks["tiny"] == {"task000": 2.0}
    assert networks["resnet"] == {"task003": 4.0, "gone": 1.0, "task015": 1.0}  # task015 by its source
    assert set(networks) == {"resnet", "tiny", "bert", "vgg"}
    assert set(evaluation_networks(tmp_path / "none", data)) == {"resnet", "bert", "vgg"}


def test_a_held_out_network_has_no_task_in_training(data):
    networks = {"a": {"task000": 1.0, "task001": 1.0, "gone": 1.0}, "b": {"task001": 1.0, "task002": 1.0}}
    config = split_by_networks(SplitConfig(by="network", networks=["a"], validation=0.2), data, networks)
    split = split_rows(data, config)
    assert set(data.workload_hash[split.test]) == {"task000", "task001"}
    validation = set(data.workload_hash[split.validation])
    assert len(validation) == 3 and not validation & {"task000", "task001"}
    by_task = SplitConfig()
    assert split_by_networks(by_task, data, networks) is by_task
    # Tasks that a model trained further has seen are neither held out nor used to choose the epoch.
    seen = ["task001", *validation]
    config = split_by_networks(
        SplitConfig(by="network", networks=["a"], validation=0.2), data, networks, seen
    )
    split = split_rows(data, config, seen)
    assert set(data.workload_hash[split.test]) == {"task000"}
    assert not set(data.workload_hash[split.validation]) & {"task000", *seen}


def test_a_network_that_the_seed_draws_has_no_task_in_training(data):
    networks = {"a": {"task000": 1.0, "task001": 1.0, "gone": 1.0}, "b": {"task001": 1.0, "task002": 1.0}}
    by_network = SplitConfig(by="network", test=0.5, validation=0.2)
    held_out = set()
    for seed in range(9):
        split = split_rows(data, split_by_networks(replace(by_network, seed=seed), data, networks))
        held_out.add(tuple(np.unique(data.workload_hash[split.test]).tolist()))
    assert held_out == {("task000", "task001"), ("task001", "task002")}
    # The only unseen task of "a" is shared, and "none" has no record.
    networks["none"] = {"gone": 1.0}
    config = split_by_networks(by_network, data, networks, ["task000", "task002"])
    assert config.test_tasks == ["task001"]
    without = replace(by_network, test=0.0)
    assert split_by_networks(without, data, networks) == SplitConfig(test=0.0, validation=0.2)


def test_networks_that_do_not_fit_are_refused(tmp_path, data):
    config = SplitConfig(by="network", networks=["vgg16"])
    with pytest.raises(SplitError, match="vgg16 are in no networks"):
        split_by_networks(config, data, {"bert": {"task000": 1.0}})
    with pytest.raises(SplitError, match="no record comes from a network"):
        split_by_networks(config, data, {})
    with pytest.raises(SplitError, match="no record of any"):
        split_by_networks(config, data, {"vgg16": {"gone": 1.0}})
    for text in ("[", '["a"]', '{"a": {}}', '{"a": {"task000": 0}}', '{"a": {"task000": "many"}}'):
        (tmp_path / "networks.json").write_text(text)
        with pytest.raises(NetworksFileError, match=r"networks\.json"):
            evaluation_networks(tmp_path, data)


@property_settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    share=st.floats(0.01, 0.45),
    shapes=st.lists(st.integers(0, 11), min_size=24, max_size=24),
    seen=st.sets(st.integers(0, 23), max_size=4),
)
def test_no_shape_of_a_held_out_network_is_trained_on(seed, share, shapes, seen):
    records = dataset(tasks=24, per_task=2)
    tasks = np.unique(records.workload_hash).tolist()
    of_task = dict(zip(tasks, shapes, strict=True))
    records = replace(records, shape=np.array([f"shape{of_task[task]}" for task in records.workload_hash]))
    known = [tasks[number] for number in seen]
    networks = {name: dict.fromkeys(tasks[start::7], 1.0) for start, name in enumerate("abcde")}
    config = SplitConfig(by="network", validation=share, test=share, seed=seed)
    try:
        split = split_rows(records, split_by_networks(config, records, networks, known), known)
    except SplitError as error:
        assume(not any(reason in str(error) for reason in ("none to train on", "of every network")))
        raise
    rows = np.concatenate([split.train, split.validation, split.test])
    assert sorted(rows.tolist()) == list(range(len(records)))
    parts = [set(records.shape[split.part(name)]) for name in ("train", "validation", "test")]
    assert sum(len(part) for part in parts) == len(set.union(*parts))
    assert set(known) <= set(records.workload_hash[split.train].tolist())
    fresh = set(records.shape) - {f"shape{of_task[task]}" for task in known}
    shapes_of = ({f"shape{of_task[task]}" for task in of_network} & fresh for of_network in networks.values())
    assert any(of_network and of_network <= parts[2] for of_network in shapes_of)
