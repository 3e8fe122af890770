"""Memory and core scores of records as different targets, from replayed programs to a trained model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target, target_to_json
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features import dataset as features_dataset
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.features.roofline import dataset_scores
from foretune.dataset.records.split import SplitConfig
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.models.scaling.target import TargetConfig
from foretune.training.fitting.datamodule import Targets
from foretune.training.fitting.labels import Labels
from foretune.training.train import train_model
from support.pools import pooled_record, sampled_traces, write_pool
from support.training import settings

TARGET = target_to_json(parse_target({"kind": "llvm", "num-cores": 2}))
TASKS = [to_task(Dense(rows=64, in_features=n, out_features=128)) for n in (64, 128)]


def test_the_scores_of_a_task_are_different_targets(tmp_path, monkeypatch):
    monkeypatch.setattr(features_dataset, "process_pool", lambda *_, **__: ThreadPoolExecutor(1))
    records = [
        replace(pooled_record(task.workload_hash, trace, (1 + 0.01 * number) * 1e-3), target=TARGET)
        for task in TASKS
        for number, trace in enumerate(sampled_traces(task, 24))
    ]
    folder = write_pool(tmp_path / "pool", TASKS, records)
    data = load_labelled_features(folder, cache=tmp_path / "cache")
    scores = dataset_scores(data)
    for task in TASKS:
        of_task = data.workload_hash == task.workload_hash
        # Latencies differ little: the counts of the programs differ, and not alike for both scores.
        memory, core = np.log(scores.memory[of_task]), np.log(scores.core[of_task])
        assert memory.std() > 0.1 and core.std() > 0.1
        assert np.std(memory - core) > 0.1
    columns = ("score", "memory", "core")
    targets = Targets.of(data, Labels.of(data), TargetConfig(), columns)
    assert not np.allclose(targets.shares[:, 0], targets.shares[:, 1])

    config = settings(
        tmp_path,
        epochs=150,
        model=ModelConfig("mlp", {"width": 32, "outputs": list(columns)}),
        split=SplitConfig(validation=0, test=0),
    )
    trained = load_checkpoint(train_model(config, data, FEATURE_VERSION).checkpoint_dir, FEATURE_VERSION)
    made = trained.predictor.predict_all_table(data.features, np.arange(len(data)))
    for learned, truth in ((made.memory, scores.memory), (made.core, scores.core)):
        assert np.corrcoef(np.log(learned), np.log(truth))[0, 1] > 0.5
