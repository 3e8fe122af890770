"""Tests of evaluation: parts of a dataset, tables and remarks."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.terminal import print_table
from foretune.training.evaluate import EvaluateConfig, write_evaluation
from foretune.training.evaluation.tables import evaluation_table, network_table, remarks
from foretune.training.evaluation.task_scores import NothingToEvaluateError, evaluate_checkpoint, part_rows
from foretune.training.train import train_model
from rich.console import Console
from support.synthetic import dataset
from support.training import settings, with_latency


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint and the dataset it was trained on."""
    folder, data = tmp_path_factory.mktemp("trained"), dataset(tasks=10, per_task=12)
    return load_checkpoint(train_model(settings(folder, epochs=2), data, "1").checkpoint_dir), data


def test_parts_of_an_evaluation_follow_the_tasks_on_the_card(trained):
    checkpoint, data = trained
    rows = {
        name: set(part_rows(checkpoint.card.split, data, name)) for name in ("train", "validation", "test")
    }
    assert len(set.union(*rows.values())) == sum(map(len, rows.values())) == len(data)
    # In its training dataset, the unseen tasks are the test tasks.
    assert set(part_rows(checkpoint.card.split, data, "unseen")) == rows["test"]
    # In a larger dataset new tasks are unseen, too; tasks that it was trained on are not.
    larger = dataset(tasks=13, per_task=2)
    unseen = set(larger.workload_hash[part_rows(checkpoint.card.split, larger, "unseen")])
    assert unseen == {"task010", "task011", "task012", *checkpoint.card.split.test_tasks}
    assert len(part_rows(checkpoint.card.split, larger, "all")) == 26
    # A task of a seen shape is not unseen: here task010 has the shape of a training task.
    known = checkpoint.card.split.seen_tasks[0]
    alike = replace(larger, shape=np.where(larger.workload_hash == "task010", known, larger.shape))
    unseen = set(larger.workload_hash[part_rows(checkpoint.card.split, alike, "unseen")])
    assert unseen == {"task011", "task012", *checkpoint.card.split.test_tasks}
    assert "task010" in checkpoint.card.split.seen_in(alike)
    # A card of an older schema has no shapes: tasks are seen by their hash, or by a seen task of their shape.
    older = replace(checkpoint.card.split, seen_shapes=[])
    assert {"task010", known} <= set(older.seen_in(alike))
    alone = alike.take(np.flatnonzero(alike.workload_hash != known))
    assert "task010" not in older.seen_in(alone) and "task010" in checkpoint.card.split.seen_in(alone)


def test_tests_of_a_shape_that_was_trained_on_are_left_out_and_counted(trained):
    checkpoint, _ = trained
    split = checkpoint.card.split
    (test,) = split.test_tasks
    new = replace(split, test_tasks=[test, "task011"])
    larger = dataset(tasks=12, per_task=4)
    alike = replace(larger, shape=np.where(larger.workload_hash == test, split.train_tasks[0], larger.shape))
    assert set(larger.workload_hash[part_rows(new, alike, "test")]) == {"task011"}
    assert set(larger.workload_hash[part_rows(new, larger, "test")]) == {test, "task011"}
    card = replace(checkpoint.card, split=new)
    result = evaluate_checkpoint(replace(checkpoint, card=card), alike, "test")
    assert (result.model.tasks, result.left_out_tasks, result.seen_tasks) == (1, 1, 0)
    assert any(line.startswith("1 test task is left out") for line in remarks(result, "d"))
    whole = evaluate_checkpoint(replace(checkpoint, card=card), larger, "test")
    assert (whole.model.tasks, whole.left_out_tasks) == (2, 0)


def test_an_evaluation_names_its_tasks_and_writes_json(trained, tmp_path):
    checkpoint, data = trained
    result = evaluate_checkpoint(checkpoint, data, "all")
    assert len(result.per_task) == 10 == result.model.tasks
    for task in result.per_task:
        rows = data.workload_hash == task["workload_hash"]
        assert task["operator"] == data.operator[rows][0] and task["records"] == rows.sum()
    config = EvaluateConfig("c", Path("d"), tmp_path / "new" / "out.json", "all")
    write_evaluation(result, checkpoint, config)
    written = json.loads(config.output.read_text())
    assert written["overall"]["spearman"] == pytest.approx(result.model.spearman)
    assert written["chance"]["tasks"] == 10 and len(written["per_task"]) == 10
    console = Console(record=True, width=100, file=io.StringIO())
    print_table(evaluation_table(result), console)
    text = console.export_text()
    assert "batch_matmul" in text and "random order" in text and f"{result.model.top_1:.3f}" in text


def test_networks_are_told_and_so_is_what_was_trained_on(trained, tmp_path):
    checkpoint, data = trained
    split = checkpoint.card.split
    seen, unseen = split.seen_tasks[0], split.test_tasks[0]
    networks = {"a": {seen: 3.0, "gone": 1.0}, "b": {unseen: 1.0}, "c": {"gone": 2.0}}
    whole = evaluate_checkpoint(checkpoint, data, "all", networks=networks)
    assert [network.network for network in whole.networks] == ["a", "b", "all networks"]
    console = Console(width=120, file=io.StringIO())
    print_table(network_table(whole), console)
    lines = console.file.getvalue().splitlines()
    assert sum(f"{whole.networks[0].top_5_sums:.3f}" in line and "75%" in line for line in lines) == 1
    told = list(remarks(whole, "data/networks"))
    assert told[0].startswith(f"warning: {len(split.seen_tasks)} of these tasks were trained on")
    assert told[1] == "no record of this part in data/networks for c"
    # No unseen task was trained on, and the network of trained tasks is missing.
    test = evaluate_checkpoint(checkpoint, data, "unseen", networks=networks)
    assert (test.seen_tasks, test.unmeasured) == (0, ["a", "c"])
    config = EvaluateConfig("c", Path("d"), tmp_path / "out.json", "all")
    write_evaluation(whole, checkpoint, config)
    written = json.loads(config.output.read_text())
    assert written["seen_tasks"] == len(split.seen_tasks) and written["networks_without_records"] == ["c"]
    assert [network["network"] for network in written["networks"]] == ["a", "b", "all networks"]


def test_what_cannot_be_ranked_is_said(trained):
    checkpoint, data = trained
    alike = evaluate_checkpoint(checkpoint, with_latency(data, np.full(len(data), 1e-3)), "all")
    assert any("no task has two programs of different latency" in line for line in remarks(alike, "d"))


def test_an_empty_part_is_refused(trained):
    checkpoint, data = trained
    seen = part_rows(checkpoint.card.split, data, "train")
    only_seen = with_latency(data, np.where(np.isin(np.arange(len(data)), seen), data.latency_s, np.inf))
    with pytest.raises(NothingToEvaluateError, match="part=unseen: 12 of 120 records belong to it"):
        evaluate_checkpoint(checkpoint, only_seen)
