"""Training of several outputs, ensembles and absolute targets, and on insufficient data."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.configuration import ConfigError, from_hydra
from foretune.dataset.records.split import SplitConfig
from foretune.models.architectures.ensemble import EnsembleCostModel, members_of
from foretune.models.architectures.registry import MemberConfig, ModelConfig, build_model
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.models.losses.losses import LossConfig, LossError
from foretune.models.metrics.calibration import calibrate
from foretune.models.metrics.task_metrics import evaluate
from foretune.models.scaling.normaliser import FeatureDims
from foretune.models.scaling.target import TargetConfig
from foretune.training.fitting import config as config_module
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import CostModelData, DataConfig, DataError, RivalBatchSampler
from foretune.training.fitting.fit import DONE
from foretune.training.fitting.labels import Labels
from foretune.training.fitting.module import OptimiserConfig
from foretune.training.fitting.outcome import Outcome
from foretune.training.train import train_model
from hydra import compose, initialize_config_module
from support.paths import TESTS
from support.synthetic import dataset
from torch.utils.data import SequentialSampler

MLP = ModelConfig("mlp", {"width": 32})


def settings(folder, epochs=2, **changes):
    return TrainConfig(
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        **{
            "model": MLP,
            "data": DataConfig(batch_size=32, rivals=8),
            "optimiser": OptimiserConfig(3e-3),
            "trainer": TrainerConfig(max_epochs=epochs, progress_bar=False),
            **changes,
        },
    )


def mlp(members=1, **arguments):
    return ModelConfig("mlp", {"width": 32, **arguments}, members)


# --- several outputs


EFFICIENCY = TargetConfig("efficiency", min_efficiency=1e-2)
# Tasks differ far more than their programs, so a ranking loss is needed to rank programs.
BOTH = LossConfig(mse=1, rank=1, sigma=10)


def rows_of(data, checkpoint, part):
    rows = np.flatnonzero(np.isin(data.workload_hash, checkpoint.card.split.tasks(part)))
    return rows[np.isfinite(data.latency_s[rows])]


def test_all_outputs_are_learned(tmp_path):
    data = dataset(tasks=20, per_task=24)
    config = settings(
        tmp_path,
        epochs=15,
        split=SplitConfig(validation=0),
        model=mlp(outputs=["score", "memory", "core"]),
        target=EFFICIENCY,
        loss=replace(BOTH, outputs={"core": 2.0}),
    )
    result = train_model(config, data, "1")
    assert result.metrics["test"].spearman > 0.7
    loaded = load_checkpoint(result.checkpoint_dir, "1")
    assert loaded.predictor.model.columns == ("score", "memory", "core")
    rows = rows_of(data, loaded, "train")
    made = loaded.predictor.predict_all_table(data.features, rows)
    assert made.std is None
    # the synthetic device has 1 GFLOP/s and 1 GB/s
    for share, work in ((made.core, 2 * data.instructions), (made.memory, data.moved_bytes[:, -1])):
        truth = np.clip(work[rows] / 1e9 / data.latency_s[rows], 1e-3, 1)
        assert np.corrcoef(np.log(share), np.log(truth))[0, 1] > 0.7


def test_an_efficiency_ranks_and_gives_seconds_across_tasks(tmp_path):
    data = dataset(tasks=20, per_task=24, failures=0.05)
    kept = DataConfig(batch_size=32, rivals=8, keep_slow=True)
    # Without validation the last epoch is kept; the epoch with the best ranks may have worse seconds.
    everything = {"target": EFFICIENCY, "data": kept, "loss": BOTH, "split": SplitConfig(validation=0)}
    config = settings(tmp_path, epochs=15, **everything)
    result = train_model(config, data, "1")
    assert result.metrics["test"].spearman > 0.7
    loaded = load_checkpoint(result.checkpoint_dir, "1")
    assert loaded.card.target == EFFICIENCY
    rows = rows_of(data, loaded, "train")
    seconds = loaded.predictor.predict_latency_s(data.features.batch(rows))
    # latencies of one task spread by a factor of ten, those of all by a hundred
    assert np.corrcoef(np.log(seconds), np.log(data.latency_s[rows]))[0, 1] > 0.7
    assert np.median(np.abs(np.log(seconds / data.latency_s[rows]))) < np.log(2)


# --- uncertainty


def test_a_variance_is_calibrated_and_written(tmp_path):
    data = dataset(tasks=20, per_task=20)
    config = settings(tmp_path, epochs=4, model=mlp(variance=True), loss=LossConfig(mse=0.0, nll=1.0))
    result = train_model(config, data, "1")
    card = load_checkpoint(result.checkpoint_dir, "1").card
    assert (card.std_scale, card.std_floor) != (1, 0)
    written = json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]
    assert written == card.metrics["test"]
    assert written["ence"] == pytest.approx(result.calibration["test"].ence)
    assert written["coverage_90"] == pytest.approx(result.calibration["test"].coverage_90)
    assert written["spearman"] == pytest.approx(result.metrics["test"].spearman)
    # the deviations were fitted on validation tasks, so that their mean squared z is 1
    predictor = load_checkpoint(result.checkpoint_dir).predictor
    records = CostModelData(data, config.split, config.target, config.data)
    rows = records.split.validation
    made = predictor.predict_all_table(data.features, rows)
    z = (records.targets.primary[rows] - made.output) / made.std
    assert np.mean(z**2) == pytest.approx(1, rel=1e-2)


def test_each_record_is_predicted_once_for_the_card(monkeypatch):
    data = dataset(tasks=12, per_task=6, failures=0.1)
    records = CostModelData(data, SplitConfig(), TargetConfig(), DataConfig())
    model = build_model(mlp(variance=True), FeatureDims.of(data.features))
    predicted, columns = [], model.all_columns
    monkeypatch.setattr(
        model, "all_columns", lambda batch: predicted.append(len(batch.task)) or columns(batch)
    )
    outcome = Outcome.of(model, TargetConfig(), records)
    assert predicted == [len(records.split.validation), len(records.split.test)]
    ran = records.split.test[np.isfinite(data.latency_s[records.split.test])]
    made = outcome.predictor.predict_all_table(data.features, ran)
    calibration = calibrate(made.output, made.std, records.targets.primary[ran])
    assert outcome.calibration["test"].summary() == pytest.approx(calibration.summary(), rel=1e-4)


def test_a_variance_needs_its_loss(tmp_path):
    with pytest.raises(LossError, match="variance=true: either needs the other"):
        train_model(settings(tmp_path, model=mlp(variance=True)), dataset(tasks=6, per_task=4), "1")


def test_an_ensemble_beats_its_members_and_is_one_checkpoint(tmp_path):
    data = dataset(tasks=20, per_task=20)
    result = train_model(settings(tmp_path, epochs=3, model=mlp(members=3)), data, "1")
    assert result.epochs == 9
    assert sorted(folder.name for folder in (tmp_path / "run").glob("member-*")) == [
        f"member-{i}" for i in range(3)
    ]
    assert sorted(file.name for file in result.checkpoint_dir.iterdir()) == ["card.json", "model.safetensors"]
    loaded = load_checkpoint(result.checkpoint_dir, "1")
    model = loaded.predictor.model
    assert isinstance(model, EnsembleCostModel) and loaded.card.model.members == 3
    assert "coverage_90" in loaded.card.metrics["test"]

    rows = np.flatnonzero(np.isin(data.workload_hash, loaded.card.split.test_tasks))
    group = Labels.of(data).group[rows]
    alone = [
        evaluate(
            replace(loaded.predictor, model=member).predict_table(data.features, rows),
            data.latency_s[rows],
            group,
        ).rmse
        for member in members_of(model)
    ]
    assert len({round(error, 6) for error in alone}) == 3  # they are different models
    assert result.metrics["test"].rmse < np.mean(alone)  # true for any ensemble, by convexity


def test_members_are_fixed_by_the_seed_and_resumed_where_they_stopped(tmp_path):
    data = dataset(tasks=6, per_task=8)
    config = settings(tmp_path / "a", model=mlp(members=2))
    first = load_checkpoint(train_model(config, data, "1").checkpoint_dir)

    again = settings(tmp_path / "b", model=mlp(members=2))
    train_model(again, data, "1").checkpoint_dir.rename(tmp_path / "moved")
    second_member = again.run_dir / "member-1"
    for file in second_member.iterdir():  # state of an interrupt before the second member
        if file.is_file():
            file.unlink()
    kept = (again.run_dir / "member-0" / DONE).stat().st_mtime_ns
    resumed = load_checkpoint(train_model(replace(again, resume=True), data, "1").checkpoint_dir)
    assert (again.run_dir / "member-0" / DONE).stat().st_mtime_ns == kept
    assert resumed.card.weights_sha256 == first.card.weights_sha256
    assert (second_member / DONE).is_file()


def test_each_member_is_trained_to_its_own_outputs(tmp_path):
    """The second predicts a share that the first does not predict, and the third another share."""
    data = dataset(tasks=20, per_task=12)
    kinds = [MemberConfig("mlp", {"width": 32, "outputs": ["score", share]}) for share in ("memory", "core")]
    model = ModelConfig("mlp", {"width": 32}, beside=kinds)
    train_model(settings(tmp_path / "all", epochs=3, model=model), data, "1")
    together = members_of(load_checkpoint(tmp_path / "all" / "checkpoint").predictor.model)
    step = 1_000_003  # between the seeds of members
    for number, kind in enumerate(kinds, 1):
        alone = settings(tmp_path / f"{number}", epochs=3, model=ModelConfig(kind.name, kind.arguments))
        train_model(replace(alone, seed=number * step), data, "1")
        expected = load_checkpoint(tmp_path / f"{number}" / "checkpoint").predictor.model.state_dict()
        for name, weights in together[number].state_dict().items():
            torch.testing.assert_close(weights, expected[name])


def test_an_ensemble_is_trained_further_as_one(tmp_path):
    data = dataset(tasks=6, per_task=8)
    first = train_model(settings(tmp_path / "a", epochs=1, model=mlp(members=2)), data, "1")
    config = settings(
        tmp_path / "b",
        epochs=1,
        start_from=str(first.checkpoint_dir),
        optimiser=OptimiserConfig(learning_rate=1e-12, weight_decay=0),
    )
    more = dataset(tasks=12, per_task=8, seed=1)
    after = load_checkpoint(train_model(config, more, "1").checkpoint_dir).predictor
    before = load_checkpoint(first.checkpoint_dir).predictor
    batch = more.features.batch(np.arange(5))
    np.testing.assert_allclose(after.predict(batch), before.predict(batch), atol=1e-6)


# --- ablation


def test_an_ablation_is_carried_in_the_card(tmp_path):
    data = dataset(tasks=6, per_task=8)
    config = settings(tmp_path / "a", epochs=1, data=DataConfig(batch_size=32, without=["task", "decisions"]))
    result = train_model(config, data, "1")
    loaded = load_checkpoint(result.checkpoint_dir)
    assert loaded.card.training["data"]["without"] == ["task", "decisions"]
    changed = replace(data.features, task=data.features.task + 3, decisions=data.features.decisions + 3)
    rows = np.arange(8)
    np.testing.assert_array_equal(
        loaded.predictor.predict_table(changed, rows), loaded.predictor.predict_table(data.features, rows)
    )
    further = settings(
        tmp_path / "b", start_from=str(result.checkpoint_dir), data=DataConfig(without=["task"])
    )
    with pytest.raises(
        DataError, match=r"was trained without \['decisions', 'task'\] and keeps its features"
    ):
        train_model(further, dataset(tasks=12, per_task=8), "1")


# --- insufficient data


def records_of(data, target=None, **changes):
    split = SplitConfig(test=0, **{"validation": 0.0, **changes})
    return CostModelData(data, split, target or TargetConfig(), DataConfig())


def test_devices_that_cannot_be_told_apart_are_warned_of(caplog):
    data = dataset(tasks=6, per_task=4)
    data.hardware_id[::2] = "cpu-fast"
    with caplog.at_level(logging.WARNING):
        CostModelData(data, SplitConfig(), TargetConfig(), DataConfig(without=["hardware"]))
    assert "data.without=[hardware], but the records are of 2 devices (cpu-fast, cpu-test)" in caplog.text
    caplog.clear()
    CostModelData(data, SplitConfig(), TargetConfig(), DataConfig())
    assert caplog.text == ""


def test_a_single_task_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        records_of(dataset(tasks=1, per_task=4))
    assert "all 4 records to train on are of one task (task000)" in caplog.text


def test_one_program_a_task_cannot_be_ranked(caplog):
    data = dataset(tasks=6, per_task=1)
    with pytest.raises(DataError, match=r"6 records to train on have one and the same target"):
        records_of(data)
    # They teach an efficiency, but not the differences between programs of a task.
    with caplog.at_level(logging.WARNING):
        assert not records_of(data, TargetConfig("efficiency"), validation=0.2).validates
    assert "no task has two records to train on" in caplog.text
    assert "no validation task has two programs of different latency" in caplog.text


def test_a_validation_that_judges_nothing_trains_all_epochs(tmp_path):
    data = dataset(tasks=8, per_task=1)
    config = settings(tmp_path, epochs=3, target=TargetConfig("efficiency"), split=SplitConfig(test=0))
    result = train_model(config, data, "1")
    assert result.epochs == 3 and np.isnan(result.metrics["validation"].spearman)


def test_features_that_are_not_finite_are_a_user_error():
    data = dataset(tasks=4, per_task=3)
    data.features.stores[5, 7] = np.nan
    with pytest.raises(DataError, match=r"stores features: column 7 contains NaN.*leave out the records"):
        records_of(data)


# --- trainer


def test_processes_share_out_the_batches(monkeypatch):
    group = np.zeros(50, dtype=np.int64)

    def batches(process, processes):
        monkeypatch.setattr("foretune.training.fitting.datamodule._processes", lambda: (process, processes))
        sampler = RivalBatchSampler(
            SequentialSampler(range(50)), group, group, 10, 1, torch.Generator().manual_seed(0)
        )
        made = list(sampler)
        assert len(made) == len(sampler)
        return made

    whole = batches(0, 1)
    shares = [batches(process, 2) for process in range(2)]
    assert [len(share) for share in shares] == [3, 3]  # five batches: the first is drawn again
    assert shares[0] == [whole[0], whole[2], whole[4]]
    assert shares[1] == [whole[1], whole[3], whole[0]]


TWO_PROCESSES = """
import sys
from pathlib import Path
from foretune.models.architectures.registry import MemberConfig, ModelConfig
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig
from foretune.training.train import train_model
from support.synthetic import dataset
folder = Path(sys.argv[1])
trainer = TrainerConfig(max_epochs=1, progress_bar=False, devices=2, strategy="ddp")
train_model(
    TrainConfig(
        Path("unused"),
        folder / "run",
        folder / "checkpoint",
        ModelConfig("mlp", {"width": 16}, members=2),
        data=DataConfig(batch_size=8, rivals=4),
        trainer=trainer,
    ),
    dataset(tasks=6, per_task=8),
    "1",
)
"""


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path):
    """Lightning starts the script a second time, so it must be a file."""
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    here = str(TESTS)
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": here},
        check=True,
        capture_output=True,
    )
    card = load_checkpoint(tmp_path / "checkpoint").card
    assert card.model.members == 2 and card.training["trainer"]["strategy"] == "ddp"


def test_devices_that_are_not_there_are_named(tmp_path):
    trainer = TrainerConfig(progress_bar=False, strategy="telepathy")
    with pytest.raises(ConfigError, match=r"trainer\.strategy=telepathy"):
        train_model(settings(tmp_path, trainer=trainer), dataset(tasks=6, per_task=4), "1")


def test_tensorboard_is_asked_for_or_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(config_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "foretune\[tensorboard\]"'):
        TrainerConfig(loggers=["tensorboard"])
    monkeypatch.undo()
    pytest.importorskip("tensorboard")
    trainer = TrainerConfig(max_epochs=1, progress_bar=False, loggers=["tensorboard"])
    train_model(settings(tmp_path, trainer=trainer), dataset(tasks=6, per_task=4), "1")
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))


def test_a_training_without_logs_is_possible(tmp_path):
    trainer = TrainerConfig(max_epochs=1, progress_bar=False, loggers=[])
    train_model(settings(tmp_path, trainer=trainer), dataset(tasks=6, per_task=4), "1")
    assert not (tmp_path / "run" / "log").exists()


def test_fasors_preset_predicts_what_the_paper_predicts():
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = compose("train", ["dataset=d", "run_dir=r", "model=fasor", "trainer.devices=auto"])
    config = from_hydra(composed, TrainConfig)
    assert config.model.arguments["outputs"] == ["score", "memory", "core"]
    assert config.trainer.devices == "auto"
