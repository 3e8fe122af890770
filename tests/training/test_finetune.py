"""Fine-tuning for a new device: training data, written files, improvement, and refused settings."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.configuration import ConfigError, from_hydra
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.split import SplitConfig
from foretune.dataset.records.store import RecordStore
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.checkpoint import CheckpointExistsError, load_checkpoint
from foretune.models.losses.losses import LossConfig
from foretune.models.metrics.task_metrics import scores_from_latency
from foretune.models.scaling.target import TargetConfig
from foretune.terminal import print_table
from foretune.training.finetune import finetune, next_steps, steps_on_the_device, transfer_table
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig
from foretune.training.fitting.labels import Labels
from foretune.training.fitting.members import train_only
from foretune.training.fitting.module import OptimiserConfig
from foretune.training.train import train_model
from foretune.training.transfer.chosen_tasks import ChosenTasks, write_tasks
from foretune.training.transfer.config import FinetuneConfig, training_of
from foretune.training.transfer.recorded_transfer import TransferError
from foretune.training.transfer.task_choice import ChoiceConfig
from foretune.training.transfer.verdict import JudgedBy
from hydra import compose, initialize_config_module
from rich.console import Console
from support.synthetic import dataset

VERSION = "test"
SOURCE_TASKS = [f"task{i:03d}" for i in range(6)]


def devices():
    """Records of an old device, tasks 0 to 5, and of a new one, tasks 6 to 23, with the order reversed."""
    data = dataset(tasks=24, per_task=16)
    new = data.workload_hash >= "task006"
    return replace(
        data,
        hardware_id=np.where(new, "new", "old"),
        latency_s=np.where(new, 1e-6 / data.latency_s, data.latency_s),
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A small model of the old device."""
    config = source_config(tmp_path_factory.mktemp("source"))
    train_model(config, old_records(), VERSION)
    return config.checkpoint_dir


def old_records():
    data = devices()
    return data.take(np.flatnonzero(data.hardware_id == "old"))


def source_config(folder):
    return TrainConfig(
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        model=ModelConfig("mlp", {"width": 16}),
        data=DataConfig(batch_size=32, rivals=4, keep_slow=True),
        loss=LossConfig(rank=0.5),
        split=SplitConfig(test=0.0, validation=0.0),
        trainer=TrainerConfig(max_epochs=8, progress_bar=False),
        optimiser=OptimiserConfig(learning_rate=1e-2),
    )


def settings(folder, source, **changes):
    return FinetuneConfig(
        checkpoint=str(source),
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        **{
            "hardware": "new",
            "choice": ChoiceConfig(k=5),
            "keep": 0.0,
            "optimiser": OptimiserConfig(learning_rate=1e-2),
            "trainer": TrainerConfig(max_epochs=12, progress_bar=False),
            **changes,
        },
    )


def run(config):
    return finetune(config, load_checkpoint(config.checkpoint, VERSION), devices())


# --- fine-tuning


def test_a_few_tasks_turn_a_model_to_its_new_device(tmp_path, source):
    result = run(settings(tmp_path, source))
    assert len(result.tasks) == 5 and result.hardware == "new"
    # The device has 18 tasks, 5 of which are trained on; the rest are the test.
    before, after = result.verdict.before, result.verdict.after
    assert result.verdict.by is JudgedBy.OTHER_TASKS
    assert before.tasks == after.tasks == 13
    assert before.spearman < 0 < after.spearman
    written = json.loads((tmp_path / "run" / "transfer.json").read_text())
    assert written["tasks"] == result.tasks
    assert written["after"]["spearman"] == after.spearman
    assert written["recommended"] == str(result.checkpoint_dir)
    assert written["margin"]["ahead"] == pytest.approx(after.peak_10 - before.peak_10)
    said, place, command = next_steps(result, str(source))
    assert said.startswith("fine-tuning made the model better on 13 tasks: peak@10 ")
    assert place == "next, on the device new:" and "checkpoint=./checkpoint " in command
    console = Console(width=120, record=True, quiet=False)
    print_table(transfer_table(result), console)
    assert "13 tasks of new that neither model has seen" in console.export_text()


def test_a_model_that_becomes_worse_is_not_recommended(tmp_path, source):
    """The five tasks are in the opposite order of all others, which the source model ranks well."""
    data = devices()
    tasks = [f"task{number:03d}" for number in range(6, 11)]
    turned = np.isin(data.workload_hash, tasks) | (data.hardware_id == "old")
    data = replace(data, latency_s=np.where(turned, data.latency_s, 1e-6 / data.latency_s))
    config = settings(tmp_path, source, tasks=tasks)
    result = finetune(config, load_checkpoint(source, VERSION), data)
    assert result.verdict.after.peak_10 < result.verdict.before.peak_10 and result.verdict.is_worse
    said, place, command = next_steps(result, str(source))
    assert said.startswith("fine-tuning made the model worse on 13 tasks: peak@10 ")
    assert place.endswith("with the starting point, which is the better model:")
    assert f"checkpoint={source} " in command
    assert json.loads((tmp_path / "run" / "transfer.json").read_text())["recommended"] == str(source)


def test_few_other_tasks_decide_nothing(tmp_path, source):
    data = devices()
    names = [f"task{number:03d}" for number in range(6, 13)]
    data = data.take(np.flatnonzero(np.isin(data.workload_hash, names)))
    config = settings(tmp_path, source, hardware=None)
    result = finetune(config, load_checkpoint(source, VERSION), data)
    said = next_steps(result, str(source))[0]
    assert said.startswith("no clear difference from the starting point: peak@10 ")
    assert said.endswith("2 tasks are too few to decide")


def test_the_tasks_that_chose_the_epoch_judge_if_there_are_no_others(tmp_path, source):
    data = devices()
    names = [f"task{number:03d}" for number in range(6, 16)]
    data = data.take(np.flatnonzero(np.isin(data.workload_hash, names)))
    config = settings(tmp_path, source, hardware=None, choice=ChoiceConfig(k=10))
    result = finetune(config, load_checkpoint(source, VERSION), data)
    assert result.verdict.by is JudgedBy.STOPPING_TASKS and result.verdict.before.tasks == 2
    assert transfer_table(result).title.startswith("2 tasks of new that chose the epoch, which favours")


def test_no_task_judges_that_is_of_a_shape_trained_on(tmp_path, source):
    """A task that differs from one of the five in its epilogue alone is no test."""
    data = devices()
    tasks = ["task010", "task011", "task012", "task013", "task014"]
    shapes = np.where(data.workload_hash == "task015", "task010", data.shape)
    config = settings(tmp_path, source, tasks=tasks)
    result = finetune(config, load_checkpoint(source, VERSION), replace(data, shape=shapes))
    assert result.verdict.before.tasks == result.verdict.after.tasks == 12  # of the other 13
    after = load_checkpoint(result.checkpoint_dir, VERSION)
    assert {*tasks, *SOURCE_TASKS} == set(after.card.split.seen_shapes)


def test_the_card_tells_where_it_comes_from(tmp_path, source):
    before = load_checkpoint(source, VERSION)
    result = run(settings(tmp_path, source, choice=ChoiceConfig(k=3, method="random"), records_per_task=7))
    after = load_checkpoint(result.checkpoint_dir, VERSION)
    assert after.card.training["start_from"] == before.card.weights_sha256
    told = after.card.training["notes"]["few_shot"]
    assert told["tasks"] == result.tasks and told["k"] == 3 and told["method"] == "random"
    assert told["hardware_id"] == "new" and told["source_hardware_ids"] == ["old"]
    assert told["records_per_task"] == 7
    assert after.card.data.records == 21 and after.card.data.hardware_ids == ["new"]
    assert {*result.tasks, *SOURCE_TASKS} == set(after.card.split.seen_tasks)
    assert after.card.normaliser.to_json() == before.card.normaliser.to_json()


def test_a_frozen_encoder_keeps_its_weights(tmp_path, source):
    result = run(settings(tmp_path, source, freeze_encoder=True, choice=ChoiceConfig(k=3)))
    before = load_checkpoint(source, VERSION).predictor.model.state_dict()
    after = load_checkpoint(result.checkpoint_dir, VERSION).predictor.model.state_dict()
    changed = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head"}


def test_weights_stay_between_the_source_and_what_few_tasks_give(tmp_path, source):
    result = run(settings(tmp_path, source, keep=0.25, choice=ChoiceConfig(k=10)))
    weights = [
        load_checkpoint(path, VERSION).predictor.model.state_dict()
        for path in (source, tmp_path / "run" / "fine-tuned", result.checkpoint_dir)
    ]
    for before, tuned, mixed in zip(*(state.values() for state in weights), strict=True):
        torch.testing.assert_close(mixed, 0.25 * before + 0.75 * tuned)
    card, tuned = (
        load_checkpoint(path, VERSION).card
        for path in (result.checkpoint_dir, tmp_path / "run" / "fine-tuned")
    )
    assert card.training["notes"]["few_shot"]["keep"] == 0.25
    assert card.split == tuned.split and len(card.split.validation_tasks) == 2
    # The metrics are those of the written weights.
    assert card.metrics["validation"]["rmse"] != tuned.metrics["validation"]["rmse"]
    assert card.weights_sha256 != tuned.weights_sha256


def test_a_model_of_efficiencies_is_judged_by_the_scores_within_each_task(tmp_path, source):
    config = replace(source_config(tmp_path / "source"), target=TargetConfig("efficiency"))
    train_model(config, old_records(), VERSION)
    changes = {"choice": ChoiceConfig(k=10), "keep": 0.25}
    result = run(settings(tmp_path, config.checkpoint_dir, **changes))
    after = load_checkpoint(result.checkpoint_dir, VERSION)
    data = devices()
    unseen = np.flatnonzero((data.hardware_id == "new") & ~np.isin(data.workload_hash, result.tasks))
    validation = np.flatnonzero(np.isin(data.workload_hash, after.card.split.validation_tasks))
    for rows, r2 in ((unseen, result.verdict.after.r2), (validation, after.card.metrics["validation"]["r2"])):
        best, predicted = np.zeros(len(rows)), after.predictor.predict_table(data.features, rows)
        for task in np.unique(data.workload_hash[rows]):
            own = data.workload_hash[rows] == task
            best[own] = predicted[own].max()
        score = scores_from_latency(data.latency_s[rows], Labels.of(data).group[rows])
        error = np.square(predicted / best - score).sum()
        assert r2 == pytest.approx(1 - error / np.square(score - score.mean()).sum())


def test_given_tasks_replace_the_choice(tmp_path, source):
    config = settings(tmp_path, source, tasks=["task010", "task020", "task010"])
    result = run(config)
    assert result.tasks == ["task010", "task020"]
    card = load_checkpoint(result.checkpoint_dir, VERSION).card
    assert card.training["notes"]["few_shot"]["method"] == "given"
    with pytest.raises(CheckpointExistsError, match="checkpoint_dir="):
        run(config)


def test_a_device_with_few_tasks_gives_all_and_leaves_none_to_judge_by(tmp_path, source):
    data = devices()
    few = data.take(np.flatnonzero(np.isin(data.workload_hash, ["task006", "task007"])))
    config = settings(tmp_path, source, hardware=None, choice=ChoiceConfig(k=10))
    result = finetune(config, load_checkpoint(source, VERSION), few)
    assert result.tasks and set(result.tasks) == {"task006", "task007"}
    assert result.verdict is None and not transfer_table(result)
    assert next_steps(result, str(source))[0].startswith("nothing shows whether fine-tuning made the model")
    assert json.loads((tmp_path / "run" / "transfer.json").read_text())["after"] is None


# --- settings


def test_batches_and_loss_are_as_the_checkpoint_was_trained_but_for_changes(tmp_path, source):
    card = load_checkpoint(source, VERSION).card
    config = settings(tmp_path, source, data={"batch_size": 8}, loss={"mse": 0.5})
    training = training_of(config, card, ["a", "b", "c"], [], "new")
    assert (training.data.batch_size, training.data.rivals, training.data.keep_slow) == (8, 4, True)
    assert (training.loss.mse, training.loss.rank) == (0.5, 0.5)
    assert training.model == card.model and training.target == card.target
    for group in ("data", "loss"):
        with pytest.raises(ConfigError, match=rf"{group}\.size is unknown"):
            training_of(settings(tmp_path, source, **{group: {"size": 1}}), card, ["a"], [], "new")


@pytest.mark.parametrize(
    ("tasks", "stopping", "validation"),
    [
        (10, 0.2, 0.2),  # 2 of 10
        (5, 0.2, 0.0),  # a single task would decide
        (10, 0.0, 0.0),
        (5, 0.4, 0.4),  # 2 of 5
    ],
)
def test_an_epoch_is_chosen_by_two_tasks_at_least(tmp_path, source, tasks, stopping, validation):
    card = load_checkpoint(source, VERSION).card
    names = [f"new{i}" for i in range(tasks)]
    training = training_of(settings(tmp_path, source, stopping=stopping), card, names, [], "new")
    assert training.split.validation == validation and training.split.test == 0.0
    # Tasks that the source knows cannot choose an epoch.
    tasks = [*SOURCE_TASKS[:5], "a"]
    known = training_of(settings(tmp_path, source, stopping=0.5), card, tasks, SOURCE_TASKS, "new")
    assert known.split.validation == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stopping": 1.0}, "stopping=1.0"),
        ({"keep": 1.0}, "keep=1.0"),
        ({"records_per_task": 0}, "records_per_task=0"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        settings(tmp_path, "cpu", **changes)


def test_the_command_composes_into_its_schema(tmp_path):
    with initialize_config_module("foretune.conf", version_base="1.3"):
        given = ["checkpoint=cpu", "dataset=data/x", f"run_dir={tmp_path}", "choice.k=20", "+loss.rank=0.3"]
        config = from_hydra(compose("finetune", given), FinetuneConfig)
    assert config.choice.k == 20 and config.loss == {"rank": 0.3}
    defaults = FinetuneConfig("cpu", Path("data/x"), tmp_path, tmp_path / "checkpoint")
    assert asdict(replace(config, choice=defaults.choice, loss={})) == asdict(defaults)


def test_unknown_devices_and_parts_are_refused(tmp_path, source):
    with pytest.raises(TransferError, match=r"hardware='none'.*new .*old"):
        run(settings(tmp_path, source, hardware="none"))
    model = load_checkpoint(source, VERSION).predictor.model
    with pytest.raises(ConfigError, match=r"train_only='tail'.*head"):
        train_only([model], ["tail"])
    assert train_only([model], []) == sum(p.numel() for p in model.parameters())


# --- tasks for another machine


def stored(folder, names):
    store = RecordStore(folder)
    with store.writing():
        store.append_tasks(
            [TaskRow(name, f"dense_{name}", "dense", "{}", "operator", 1e6, "{}") for name in names]
        )
    return folder


def test_chosen_tasks_become_a_dataset_without_records(tmp_path):
    source = stored(tmp_path / "all", ["a", "b", "c"])
    written = write_tasks(source, ["c", "a"], tmp_path / "few")
    assert [row.workload_hash for row in written.tasks] == ["c", "a"]
    assert RecordStore(tmp_path / "few").tasks() == written.tasks
    again = write_tasks(source, ["c", "a"], tmp_path / "few")
    assert again == written and len(RecordStore(tmp_path / "few").tasks()) == 2
    console = Console(width=120, record=True)
    print_table(written.table(), console)
    assert "dense_c" in console.export_text()


@pytest.mark.parametrize(
    ("count", "trained", "judges"), [(4, 4, ""), (10, 10, ""), (12, 10, "by the 2 other tasks")]
)
def test_tasks_that_are_measured_in_addition_judge_the_model(count, trained, judges):
    lines = steps_on_the_device(ChosenTasks(Path("few"), [None] * count), "cpu")
    assert lines[3] == f"  foretune finetune checkpoint=cpu dataset=few choice.k={trained}"
    assert [line.endswith(judges) for line in lines[4:]] == ([True] if judges else [])


def test_tasks_go_to_a_folder_of_their_own(tmp_path):
    source = stored(tmp_path / "all", ["a", "b", "c"])
    write_tasks(source, ["a"], tmp_path / "few")
    with pytest.raises(TransferError, match="few contains 1 task that was not chosen"):
        write_tasks(source, ["b"], tmp_path / "few")
    with pytest.raises(TransferError, match="has no task z"):
        write_tasks(source, ["z"], tmp_path / "other")
