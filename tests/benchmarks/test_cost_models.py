"""Benchmark of cost models: models of a table share their records, and no tested shape is trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig, split_rows
from foretune.dataset.records.store import RecordStore
from foretune.models.architectures.gbdt import GbdtConfig, GbdtPredictor
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.card import Card
from foretune.models.checkpoints.checkpoint import load_checkpoint, shipped_checkpoints
from foretune.models.metrics.task_metrics import evaluate
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig
from foretune.training.fitting.labels import Labels
from foretune.training.train import train_model
from support.paths import ROOT
from support.synthetic import dataset

from benchmarks.cost_models.__main__ import SHIPPED, Table, arguments_of, measure
from benchmarks.cost_models.records import (
    OtherRecordsError,
    merged,
    records_apart,
    records_of,
    short_tasks,
)

DATA = dataset(tasks=10, per_task=16, failures=0.05)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model of `DATA` that tests on three tasks."""
    folder = tmp_path_factory.mktemp("model")
    config = TrainConfig(
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        model=ModelConfig("mlp", {"width": 16}),
        data=DataConfig(batch_size=32, rivals=8),
        split=SplitConfig(test=0.3, validation=0.2),
        trainer=TrainerConfig(max_epochs=1, threads=1, progress_bar=False),
    )
    train_model(config, DATA, FEATURE_VERSION)
    return str(folder / "checkpoint")


@pytest.fixture
def card(checkpoint: str) -> Card:
    return load_checkpoint(checkpoint).card


def of_tasks(data: LabelledFeatures, tasks: list[str]) -> LabelledFeatures:
    return data.take(np.flatnonzero(np.isin(data.workload_hash, tasks)))


def parts(data: LabelledFeatures, config: SplitConfig) -> list[set[str]]:
    split = split_rows(data, config)
    return [set(data.workload_hash[split.part(part)]) for part in ("train", "validation", "test")]


def test_a_program_of_two_datasets_counts_once(tmp_path: Path) -> None:
    folders = [str(ROOT / "data" / name) for name in ("samplers-pgs-random", "samplers-pgs-ebs")]
    first, second = ({record.key for record in RecordStore(Path(name)).records()} for name in folders)
    assert first & second
    for _ in range(2):  # what an earlier call wrote is replaced
        folder = merged(folders, tmp_path / "records")
    keys = [record.key for record in RecordStore(folder).records()]
    assert len(keys) == len(set(keys)) and set(keys) == first | second
    assert merged(folders[:1], tmp_path / "alone") == Path(folders[0])
    assert not (tmp_path / "alone").exists()


def test_records_are_those_of_the_card_less_tests_of_known_shapes(card: Card) -> None:
    split = card.split
    whole = records_of({"a": card, "b": card}, DATA)
    assert whole.left_out_tasks == 0
    expected = [set(split.train_tasks), set(split.validation_tasks), set(split.test_tasks)]
    assert parts(whole.data, whole.split) == expected
    known, *others = split.test_tasks
    alike = replace(DATA, shape=np.where(DATA.workload_hash == known, split.train_tasks[0], DATA.shape))
    rest = records_of({"a": card}, alike)
    assert rest.left_out_tasks == 1
    assert parts(rest.data, rest.split) == [*expected[:2], set(others)]


def test_other_records_than_those_of_the_card_are_refused(card: Card) -> None:
    with pytest.raises(OtherRecordsError, match=r"a was trained on .*'records': 7\d.*give the datasets"):
        records_of({"a": card}, DATA.take(np.arange(0, len(DATA), 2)))
    more = LabelledFeatures.concatenate([DATA, of_tasks(DATA, card.split.train_tasks[:1])])
    with pytest.raises(OtherRecordsError, match="a was trained on"):
        records_of({"a": card}, more)
    other = replace(card, split=replace(card.split, test_tasks=card.split.test_tasks[1:]))
    with pytest.raises(OtherRecordsError, match="a and b are of different splits"):
        records_of({"a": card, "b": other}, DATA)


def xgboost_spearman(card: Card) -> float:
    """Spearman correlation of XGBoost that is fitted to the training tasks of the card, on its test tasks."""
    train, test = (
        np.flatnonzero(np.isin(DATA.workload_hash, card.split.tasks(part))) for part in ("train", "test")
    )
    labels = Labels.of(DATA)
    trees = GbdtPredictor.fit(DATA.features, train, labels.score, config=GbdtConfig(rounds=20))
    return evaluate(
        trees.predict_table(DATA.features, test), DATA.latency_s[test], labels.group[test]
    ).spearman


def test_a_table_compares_on_held_out_tasks_and_on_networks(checkpoint: str, tmp_path: Path) -> None:
    networks = dataset(tasks=16, per_task=8, seed=3)
    matter = {Path("one"): DATA, Path("nets"): networks}
    words = ["--models", "xgb", "random", "--test-dataset", "nets", "--runs-in", str(tmp_path)]
    options = arguments_of([*words, "--", "+contestants.xgb.trees.rounds=20"])
    table = measure(Table((checkpoint,), ("one",)), options, matter.__getitem__)
    assert table["by_task"]["tasks"]["test"] == 3
    assert table["by_task"]["left_out_tasks"] == 0
    assert table["title"].startswith("All models are trained on the same 80 records of 5 tasks (`one`)")
    models = table["by_task"]["models"]
    assert set(models) == {checkpoint, "xgb", "random"}
    assert models["xgb"]["spearman"] == pytest.approx(xgboost_spearman(load_checkpoint(checkpoint).card))
    assert models["xgb"]["rounds"] == 20
    assert set(models["random"]["ahead_of_baseline"]) == {"spearman", "top_1"}
    # Ten tasks of the other dataset are trained on under the same names.
    assert (table["by_network"]["tasks"]["test"], table["by_network"]["left_out_tasks"]) == (6, 10)
    assert "all networks" in table["by_network"]["models"]["xgb"]["networks"]


def test_each_shipped_checkpoint_has_one_table() -> None:
    names = [name for table in SHIPPED for name in table.checkpoints]
    assert sorted(names) == sorted(shipped_checkpoints())
    for table in SHIPPED:
        first, *others = (load_checkpoint(name).card for name in table.checkpoints)
        assert all(card.split.train_tasks == first.split.train_tasks for card in others)
        assert all(card.data.records == first.data.records for card in others)


def test_curves_are_of_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments_of(["--tables", "cuda", "--curve-models", "xgb"]).tables == ["cuda"]
    with pytest.raises(SystemExit):
        arguments_of(["--curve-models", "xgb"])
    assert "add --tables cpu" in capsys.readouterr().err


def test_records_without_a_checkpoint_keep_shapes_and_short_tasks_apart() -> None:
    names = np.unique(DATA.workload_hash)
    apart = DATA.shape[DATA.workload_hash == names[0]][:1].tolist()
    found = records_apart(DATA, apart, None, 2)
    train, validation, test = parts(found.data, found.split)
    assert names[0] not in train | validation | test
    assert test and validation and not (train & test) and not (train & validation)
    few = records_apart(DATA, apart, 5, 2)
    assert len(np.unique(few.data.workload_hash)) == 5
    assert records_apart(DATA, apart, None, 17).left_out_tasks == len(test)  # 16 programs a task at most
    assert short_tasks(DATA, 1) == set() and short_tasks(DATA, 17) == set(names.tolist())


def test_an_ensemble_is_trained_on_the_training_tasks_alone(tmp_path: Path) -> None:
    words = ["--datasets", "one", "--ensemble", "mlp", "--seeds", "0", "1", "--models", "random"]
    words += ["--baseline", "random", "--epochs", "1", "--runs-in", str(tmp_path)]
    table = measure(Table((), ("one",), networks=None), arguments_of(words), {Path("one"): DATA}.__getitem__)
    assert set(table["by_task"]["models"]) == {"ensemble", "random"}
    card = load_checkpoint(next(tmp_path.rglob("combined"))).card
    assert card.model.members == 2
    test = set(card.split.test_tasks)
    assert len(test) == table["by_task"]["tasks"]["test"] and not test & set(card.split.seen_tasks)
