"""Training: sampling of records, written files, learning, evaluation, and refused settings."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.configuration import ConfigError, from_hydra
from foretune.dataset.records.split import SplitConfig, SplitError
from foretune.errors import UserError, exits_cleanly
from foretune.models.architectures.registry import ModelConfig, build_model
from foretune.models.checkpoints.checkpoint import CheckpointExistsError, load_checkpoint
from foretune.models.losses.losses import LossConfig
from foretune.models.scaling.normaliser import Normaliser
from foretune.models.scaling.target import TargetConfig
from foretune.training.comparison.config import CompareConfig
from foretune.training.comparison.learning_curve import CurveConfig
from foretune.training.evaluate import EvaluateConfig
from foretune.training.evaluation.task_scores import evaluate_checkpoint
from foretune.training.exploration.config import ReinforceConfig
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import CostModelData, DataConfig, DataError, RivalBatchSampler
from foretune.training.fitting.labels import LabelError, Labels, inverse_frequency
from foretune.training.fitting.module import CostModelModule, DivergedError, OptimiserConfig
from foretune.training.train import data_sha256, train_model
from foretune.training.transfer.config import FinetuneConfig
from foretune.training.transfer.task_choice import ChoiceConfig
from hydra import compose, initialize_config_module
from hypothesis import given
from hypothesis import strategies as st
from support.commands import status_of
from support.synthetic import dataset
from support.training import TRANSFORMER, settings, with_latency
from torch.utils.data import SequentialSampler

# --- labels and batches


def test_rivals_are_programs_of_one_task_on_one_device():
    data = dataset(tasks=2, per_task=3)
    data.hardware_id[:] = ["a", "a", "b", "a", "b", "b"]
    labels = Labels.of(with_latency(data, [2.0, 1.0, 7.0, 3.0, 4.0, np.inf]))
    np.testing.assert_array_equal(labels.score, [0.5, 1, 1, 1, 1, 0])
    assert len(np.unique(labels.group)) == 4


def test_programs_for_another_target_are_no_rivals():
    data = dataset(tasks=1, per_task=4)
    data = replace(data, target=np.array(["x86-64-v2", "x86-64-v2", "x86-64-v3", "x86-64-v3"]))
    labels = Labels.of(with_latency(data, [4.0, 8.0, 1.0, 2.0]))
    np.testing.assert_array_equal(labels.score, [1, 0.5, 1, 0.5])


def test_groups_are_numbered_by_task_then_device_then_target():
    data = replace(
        dataset(tasks=1, per_task=5),
        workload_hash=np.array(["b", "a", "a", "a@c", "b"]),
        hardware_id=np.array(["c", "d", "c@c", "c", "c"]),
        target=np.array(["y", "x", "x", "x", "x"]),
    )
    assert Labels.of(data).group.tolist() == [4, 1, 0, 2, 3]


def test_slow_and_failed_programs_are_left_out_unless_kept():
    data = with_latency(dataset(tasks=2, per_task=3), [1.0, 19.0, 21.0, np.inf, 1.0, 20.0])
    labels, rows = Labels.of(data), np.arange(6)
    assert labels.usable(rows, 20.0, False, False).tolist() == [0, 1, 4, 5]
    assert labels.usable(rows, 20.0, True, False).tolist() == [0, 1, 2, 4, 5]
    assert labels.usable(rows, 20.0, False, True).tolist() == [0, 1, 3, 4, 5]
    never_ran = Labels.of(with_latency(data, [1.0, 2.0, 3.0, np.inf, np.inf, np.inf]))
    assert never_ran.usable(rows, 20.0, True, True).tolist() == [0, 1, 2]


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0])
def test_latencies_that_are_none_are_refused(bad):
    data = dataset(tasks=2, per_task=2)
    data.latency_s[3] = bad
    with pytest.raises(LabelError, match=rf"1 record.*{bad} at row 3 \(task task001\)"):
        Labels.of(data)


def test_failures_alone_are_refused():
    data = dataset(tasks=2, per_task=2)
    with pytest.raises(LabelError, match="all records are failures"):
        Labels.of(with_latency(data, np.full(4, np.inf)))


def test_oversampling_weights_by_hand():
    # bins of width 0.1: three scores in the first, one in the sixth, and 1.0 belongs to the last
    np.testing.assert_allclose(
        inverse_frequency(np.array([0.0, 0.01, 0.09, 0.55, 1.0])), [1 / 3] * 3 + [1, 1]
    )


def test_rare_fast_programs_are_drawn_as_often_as_common_slow_ones():
    data = dataset(tasks=1, per_task=500)
    latency_s = np.where(np.arange(500) < 10, 1.0, 10.0)  # ten programs score 1, the others 0.1
    records = CostModelData(
        with_latency(data, latency_s),
        SplitConfig(validation=0, test=0),
        TargetConfig(),
        DataConfig(batch_size=100, rivals=1),
    )
    fast = [float((batch.target > 0.5).float().mean()) for batch in records.train_dataloader()]
    assert len(fast) == 5
    assert np.mean(fast) == pytest.approx(0.5, abs=0.1)  # 500 draws: 4.5 standard deviations


@given(
    groups=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    batch_size=st.integers(1, 16),
    rivals=st.integers(1, 8),
)
def test_batches_hold_each_draw_once(groups, batch_size, rivals):
    rows = range(len(groups))
    length = np.arange(len(groups)) % 3
    sampler = RivalBatchSampler(
        SequentialSampler(rows),
        np.array(groups),
        length,
        batch_size,
        rivals,
        torch.Generator().manual_seed(0),
    )
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(rows)
    assert len(batches) == len(sampler)
    assert all(size == batch_size for size in sorted(map(len, batches))[1:])


def test_rivals_stand_together():
    group = np.tile(np.arange(10), 8)  # ten tasks of eight programs, interleaved
    length = group % 3
    sampler = RivalBatchSampler(
        SequentialSampler(range(80)), group, length, 16, 8, torch.Generator().manual_seed(0)
    )
    assert all(len(np.unique(group[batch])) == 2 for batch in sampler)


def test_a_batch_holds_programs_of_similar_length():
    task = np.repeat(np.arange(16), 2)  # sixteen tasks of two programs
    length = np.where(task % 2, 9, 3)
    sampler = RivalBatchSampler(SequentialSampler(range(32)), task, length, 4, 2, torch.Generator())
    batches = [set(length[batch]) for batch in sampler]
    assert batches.count({3}) == batches.count({9}) == 4
    assert batches not in ([{3}] * 4 + [{9}] * 4, [{9}] * 4 + [{3}] * 4)


def test_training_fits_and_serves_training_tasks_only():
    data = dataset(tasks=12, per_task=6, failures=0.2)
    records = CostModelData(data, SplitConfig(), TargetConfig(), DataConfig(batch_size=16, rivals=4))
    train_tasks = set(data.workload_hash[records.train.rows])
    assert not train_tasks & set(data.workload_hash[records.validation.rows])
    assert not train_tasks & set(data.workload_hash[records.split.test])
    expected = Normaliser.fit(data.features, records.train.rows)
    np.testing.assert_array_equal(records.normaliser.stores.mean, expected.stores.mean)
    # validation keeps its failures and slow programs; training has none
    assert np.isfinite(data.latency_s[records.train.rows]).all()
    assert len(records.validation) == len(records.split.validation)
    batch = next(iter(records.train_dataloader()))
    assert batch.features.stores.shape[0] == 16 and batch.features.stores.shape[2] == 164
    assert batch.target.dtype == torch.float32 and float(batch.target.min()) > 0


def test_nothing_left_to_train_on_is_refused():
    data = dataset(tasks=3, per_task=4)
    split = SplitConfig()
    train = CostModelData(data, split, TargetConfig(), DataConfig()).split.train
    data.latency_s[train] = np.inf
    with pytest.raises(DataError, match="no record of the training tasks ran"):
        CostModelData(data, split, TargetConfig(), DataConfig())
    with pytest.raises(DataError, match="1 <= rivals <= batch_size"):
        DataConfig(batch_size=8, rivals=9)


# --- a run


def test_training_learns_to_rank_programs_of_tasks_it_has_not_seen(tmp_path):
    data = dataset(tasks=30, per_task=40, failures=0.05)
    changes = {"data": DataConfig(batch_size=32, rivals=8), "optimiser": OptimiserConfig(3e-3)}
    result = train_model(settings(tmp_path, epochs=10, **changes), data, "1")
    assert result.metrics["test"].spearman > 0.7
    assert result.metrics["test"].top_5 > 0.8
    # random latencies cannot be ranked, so the correlation above is no artefact
    noise = with_latency(data, np.random.default_rng(0).permutation(data.latency_s))
    by_chance = train_model(settings(tmp_path / "noise", epochs=2, **changes), noise, "1")
    assert abs(by_chance.metrics["test"].spearman) < 0.35


def test_a_run_writes_a_checkpoint_that_predicts_as_evaluated(tmp_path):
    data = dataset(tasks=10, per_task=12)
    config = settings(tmp_path, target=TargetConfig("log_score"), loss=LossConfig(mse=1, rank=1))
    result = train_model(config, data, "1")
    loaded = load_checkpoint(tmp_path / "checkpoint", "1")
    card = loaded.card
    assert card.data.sha256 == data_sha256(data)
    assert (card.data.tasks, card.data.records) == (8, 96)
    assert card.data.operators == ["batch_matmul", "conv2d", "dense"] and card.data.hardware_ids == [
        "cpu-test"
    ]
    assert card.training["loss"] == asdict(LossConfig(mse=1, rank=1)) and card.training["epochs"] == 3
    again = evaluate_checkpoint(loaded, data, "test").model
    assert again.summary() == pytest.approx(result.metrics["test"].summary())
    assert card.metrics["test"]["spearman"] == pytest.approx(again.spearman)
    written = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert written["validation"]["top_1"] == pytest.approx(result.metrics["validation"].top_1)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["target"]["name"] == "log_score"
    assert "validation/spearman" in (tmp_path / "run/log/version_0/metrics.csv").read_text()


def test_the_seed_fixes_the_weights(tmp_path):
    data = dataset(tasks=6, per_task=10)
    weights = [
        train_model(settings(tmp_path / name, epochs=2, seed=seed), data, "1").checkpoint_dir
        for name, seed in (("a", 4), ("b", 4), ("c", 5))
    ]
    first, again, other = (load_checkpoint(directory).card.weights_sha256 for directory in weights)
    assert first == again != other


def test_the_best_epoch_is_kept_and_training_stops_without_a_better_one(tmp_path):
    data = dataset(tasks=6, per_task=10)
    # such a small rate changes nothing, so no epoch is better than the first
    config = settings(
        tmp_path,
        optimiser=OptimiserConfig(learning_rate=1e-12, weight_decay=0),
        trainer=TrainerConfig(max_epochs=50, patience=2, progress_bar=False),
    )
    assert train_model(config, data, "1").epochs == 3


def test_a_run_without_validation_and_test_keeps_the_last_epoch(tmp_path):
    config = settings(tmp_path, epochs=1, split=SplitConfig(validation=0, test=0))
    result = train_model(config, dataset(tasks=1, per_task=20), "1")
    assert result.metrics == {} and result.epochs == 1
    assert load_checkpoint(result.checkpoint_dir).card.split.test_tasks == []


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    data = dataset(tasks=6, per_task=10)
    train_model(settings(tmp_path, epochs=2), data, "1")
    first = (tmp_path / "checkpoint").rename(tmp_path / "first")
    train_model(settings(tmp_path, epochs=4, resume=True), data, "1")
    rows = (tmp_path / "run/log/version_1/metrics.csv").read_text().splitlines()
    epoch = rows[0].split(",").index("epoch")
    assert {row.split(",")[epoch] for row in rows[1:]} == {"2", "3"}
    assert load_checkpoint(first).card.training["epochs"] == 2
    assert load_checkpoint(tmp_path / "checkpoint").card.training["epochs"] == 4


def test_a_resumed_run_counts_the_seconds_before(tmp_path):
    data = dataset(tasks=6, per_task=10)
    first = train_model(settings(tmp_path, epochs=1), data, "1")
    last = tmp_path / "run/last.ckpt"
    state = torch.load(last, weights_only=True)
    assert 0 < state["callbacks"]["Timer"]["time_elapsed"]["train"] < first.seconds
    state["callbacks"]["Timer"]["time_elapsed"]["train"] = 1000.0
    torch.save(state, last)
    for epochs in (1, 2):  # nothing is left to do, then an epoch
        (tmp_path / "checkpoint").rename(tmp_path / f"before-{epochs}")
        resumed = train_model(settings(tmp_path, epochs=epochs, resume=True), data, "1")
        card = load_checkpoint(resumed.checkpoint_dir).card
        assert 1000 <= resumed.seconds < 1600 and card.training["seconds"] >= 1000
        assert card.training["epochs"] == epochs


@pytest.mark.parametrize("stop", [1, 2])
def test_an_interrupted_run_gives_the_weights_of_an_uninterrupted_one(tmp_path, monkeypatch, stop):
    model = replace(TRANSFORMER, arguments={**TRANSFORMER.arguments, "dropout": 0.2})
    data = dataset(tasks=6, per_task=10)
    changes = {"model": model, "data": DataConfig(batch_size=16, rivals=4)}
    whole = train_model(settings(tmp_path / "whole", **changes), data, "1")

    def stops(module):
        if module.current_epoch == stop:
            raise KeyboardInterrupt
        seeds(module)

    seeds = CostModelModule.on_train_epoch_start
    monkeypatch.setattr(CostModelModule, "on_train_epoch_start", stops)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        train_model(settings(tmp_path, **changes), data, "1")
    monkeypatch.setattr(CostModelModule, "on_train_epoch_start", seeds)
    resumed = train_model(settings(tmp_path, resume=True, **changes), data, "1")
    first, again = (load_checkpoint(run.checkpoint_dir).card.weights_sha256 for run in (whole, resumed))
    assert first == again


def test_only_a_run_with_the_same_settings_is_resumed(tmp_path):
    data = dataset(tasks=6, per_task=10)
    with pytest.raises(ConfigError, match="has no interrupted run: name its folder"):
        train_model(settings(tmp_path, resume=True), data, "1")
    train_model(settings(tmp_path, epochs=1), data, "1").checkpoint_dir.rename(tmp_path / "first")
    with pytest.raises(ConfigError, match="seed differ from"):
        train_model(settings(tmp_path, seed=3, resume=True), data, "1")


def test_a_checkpoint_is_trained_further_and_remembers_what_it_has_seen(tmp_path):
    first = train_model(settings(tmp_path / "first"), dataset(tasks=6, per_task=10), "1")
    before = load_checkpoint(first.checkpoint_dir)
    more = dataset(tasks=12, per_task=10, seed=1)
    config = settings(
        tmp_path / "second",
        epochs=1,
        start_from=str(first.checkpoint_dir),
        model=ModelConfig("mlp"),
        optimiser=OptimiserConfig(learning_rate=1e-12, weight_decay=0),
    )
    after = load_checkpoint(train_model(config, more, "1").checkpoint_dir)
    # such a small rate changes nothing: it is the first model with its normaliser
    batch = more.features.batch(np.arange(5))
    np.testing.assert_allclose(after.predictor.predict(batch), before.predictor.predict(batch), atol=1e-6)
    assert after.card.model == before.card.model
    assert after.card.training["start_from"] == before.card.weights_sha256
    seen = set(before.card.split.seen_tasks)
    assert seen <= set(after.card.split.train_tasks)
    assert not seen & {*after.card.split.validation_tasks, *after.card.split.test_tasks}


def test_what_cannot_be_trained_is_refused(tmp_path):
    with pytest.raises(SplitError, match="the dataset has 1 task,"):
        train_model(settings(tmp_path), dataset(tasks=1), "1")
    with pytest.raises(DivergedError, match=r"lower optimiser\.learning_rate"):
        broken = OptimiserConfig(learning_rate=1e30)
        train_model(settings(tmp_path, optimiser=broken), dataset(tasks=6), "1")
    with pytest.raises(DivergedError, match=r"weights are not finite after epoch 0"):
        unjudged = SplitConfig(validation=0, test=0)
        train_model(settings(tmp_path, optimiser=broken, split=unjudged), dataset(tasks=6), "1")
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(CheckpointExistsError, match="choose another"):
        train_model(settings(tmp_path), dataset(tasks=6), "1")


def test_the_data_hash_changes_with_content_only():
    data = dataset(tasks=2, per_task=3)
    again = dataset(tasks=2, per_task=3)
    assert data_sha256(data) == data_sha256(again)
    again.features.decisions[0, 0] += 1
    renamed = replace(data, operator=np.where(data.operator == "dense", "pool", data.operator))
    assert len({data_sha256(data), data_sha256(again), data_sha256(renamed)}) == 3


# --- configuration and commands


@pytest.mark.parametrize("model", ["transformer", "one_shot_tuner", "fasor", "mlp", "lstm"])
def test_every_model_of_the_configuration_builds_and_matches_the_schema(model):
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = compose("train", ["dataset=d", "run_dir=r", f"model={model}"])
    config = from_hydra(composed, TrainConfig)
    assert config.checkpoint_dir == Path("r/checkpoint") and config.dataset == Path("d")
    dims = Normaliser.fit(dataset(tasks=1, per_task=2).features, np.arange(2)).dims
    parameters = sum(p.numel() for p in build_model(config.model, dims).parameters())
    assert (parameters > 1e7) == (model == "one_shot_tuner")


def test_the_configuration_states_the_defaults_of_the_code():
    with initialize_config_module("foretune.conf", version_base="1.3"):
        train = from_hydra(compose("train", ["dataset=d", "run_dir=r"]), TrainConfig)
        evaluate = from_hydra(compose("evaluate", ["dataset=d", "checkpoint=c", "output=o"]), EvaluateConfig)
    plain = TrainConfig(Path("d"), Path("r"), Path("r/checkpoint"), model=train.model)
    assert train == plain
    assert evaluate == EvaluateConfig("c", Path("d"), Path("o"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "dataset is missing: give it, as in dataset=VALUE"),
        (["dataset=d", "trainer.max_epochs=many"], r"trainer\.max_epochs=many: must be a whole number"),
        (["dataset=d", "+split.ways=3"], "split.ways"),
        (["dataset=d", "split.by=record"], "split.by='record'"),
        (["dataset=d", "model.arguments.width=10", "model.name=mlp"], "'mlp' has no argument"),
        (["dataset=d", "trainer.monitor=loss"], "trainer.monitor='loss' is unknown"),
        (["dataset=d", "trainer.patience=0"], "set both to 1 or more"),
        (["dataset=d", "trainer.threads=0"], "trainer.threads=0: set it to 1 or more"),
        (["dataset=d", "seed=-1"], "seed=-1: choose a seed from 0 to 4294967295"),
        (["dataset=d", "split.seed=-1"], "split.seed=-1: choose a seed"),
        (["dataset=d", "optimiser.learning_rate=0"], "set learning_rate above 0"),
        (["dataset=d", "model.members=0"], "model.members=0"),
        (["dataset=d", "data.without=[colour]"], "choose among stores, decisions, task, hardware"),
        (["dataset=d", "data.without=[stores,decisions]"], "leave stores or decisions in"),
        (["dataset=d", "loss.outputs.core=-1"], r"loss\.outputs=.*weights of 0 or more"),
        (["dataset=d", "+loss.outputs.score=1"], r"loss\.outputs=.*to memory and core"),
        (["dataset=d", "target.name=latency"], "choose one of score, log_score, efficiency"),
        (["dataset=d", "trainer.loggers=[wandb]"], "choose any of csv, tensorboard"),
    ],
)
def test_settings_that_are_wrong_are_named(overrides, message):
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = compose("train", ["run_dir=r", *overrides])
    with pytest.raises(UserError, match=message):
        from_hydra(composed, TrainConfig)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: EvaluateConfig("c", Path("d"), Path("o"), seed=seed),
        lambda seed: FinetuneConfig("c", Path("d"), Path("r"), Path("o"), seed=seed),
        lambda seed: ChoiceConfig(seed=seed),
        lambda seed: CurveConfig(seed=seed),
        lambda seed: CompareConfig(Path("d"), Path("r"), Path("f"), ["x"], {}, seeds=[0, seed]),
        lambda seed: ReinforceConfig([Path("d")], Path("r"), Path("c"), seed=seed),
    ],
)
def test_seeds_out_of_range_are_refused_before_anything_is_read(make):
    make(2**32 - 1)
    for seed in (-1, 2**32):
        with pytest.raises(ConfigError, match=rf"seeds?={seed}: choose a seed"):
            make(seed)
    with pytest.raises(ConfigError, match="threads=0: must be at least 1"):
        ReinforceConfig([Path("d")], Path("r"), Path("c"), threads=0)


def test_an_ensemble_of_the_greatest_seed_is_trained(tmp_path):
    model = ModelConfig("mlp", {"width": 8}, members=2)
    config = settings(tmp_path, epochs=1, model=model, seed=2**32 - 1)
    assert train_model(config, dataset(tasks=6, per_task=6), "1").epochs == 2


def test_an_unknown_part_is_refused():
    with pytest.raises(ConfigError, match="part='some' is unknown: choose one of unseen, train"):
        EvaluateConfig("c", Path("d"), Path("o"), part="some")


def test_user_errors_end_a_command_in_one_line(capsys, monkeypatch):
    @exits_cleanly()
    def command(error):
        raise error

    with pytest.raises(SystemExit, match="2"):
        command(SplitError("split.test=2: choose another"))
    assert capsys.readouterr().err == "error: split.test=2: choose another\n"
    with pytest.raises(ZeroDivisionError):  # a bug keeps its traceback
        command(ZeroDivisionError())
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(SplitError):
        command(SplitError("again"))


def test_a_command_that_cannot_run_says_why_and_ends_with_a_status(capsys):
    assert status_of("evaluate", "checkpoint=./nothing", "dataset=d") == 2
    assert capsys.readouterr().err.startswith("error: no checkpoint './nothing'")
