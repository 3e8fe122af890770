"""Programs for tensor cores from records to a search: generate, train, evaluate, tune, all without a GPU."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foretune.compiler.tvm_compat import WMMA, tensor_core_way
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.records.store import RecordStore
from foretune.inference.run.result_file import load_result
from support.commands import status_of
from support.in_this_process import features_in_this_process

DEVICE = ["executor=dry_run", "target=nvidia/nvidia-a100", "workers=1"]

pytestmark = pytest.mark.slow


def as_if_measured(simulated: Path, folder: Path) -> None:
    """Copy of a dataset whose latencies count as measured: training leaves out simulated ones."""
    source, store = RecordStore(simulated), RecordStore(folder)
    with store.writing():
        for hardware in source.hardware().values():
            store.put_hardware(hardware)
        store.append_tasks(source.tasks())
        store.append_records([replace(record, simulated=False) for record in source.records()])


def test_records_of_tensor_cores_train_a_model_that_searches(tmp_path, capsys):
    generated = status_of(
        "generate",
        *DEVICE,
        "dataset=simulated",
        "task_sampling.dtype={bfloat16: 0.5, float16: 0.5}",
        "task_sampling.operators={dense: 1}",
        "task_sampling.max_flops=2e7",
        "tasks=3",
        "records_per_task=4",
        "per_round=4",
        "program_sampling.sampler=random",
        "samplers=0",
        "measure.build_timeout_s=60",
        "check_outputs=0",
    )
    assert generated == 0
    as_if_measured(tmp_path / "simulated", tmp_path / "records")
    records = RecordStore(tmp_path / "records").records()
    ways = Counter(tensor_core_way(record.trace) for record in records if record.failure is None)
    assert ways[WMMA] > 0

    with features_in_this_process():  # and from their cache afterwards
        data = load_labelled_features(tmp_path / "records")
    assert len(data.latency_s) == sum(ways.values())
    assert np.isfinite(data.features.task).all() and np.isfinite(data.features.stores).all()

    trained = status_of(
        "train",
        "dataset=records",
        "model.arguments.width=32",
        "model.arguments.layers=1",
        "trainer.max_epochs=2",
        "split.test=0.34",
        "split.validation=0.34",
        "checkpoint_dir=checkpoint",
    )
    assert trained == 0
    capsys.readouterr()
    assert status_of("evaluate", "checkpoint=./checkpoint", "dataset=records") == 0
    evaluated = " ".join(capsys.readouterr().out.split())
    assert "mean over tasks" in evaluated.lower() and "dense" in evaluated

    tuned = status_of(
        "tune",
        *DEVICE[:2],
        "network=torch.nn:Linear",
        "kwargs={in_features: 128, out_features: 128}",
        "inputs=[[64,128]]",
        "lowering.dtype=bfloat16",
        "checkpoint=./checkpoint",
        "search=short",
        "search/strategy=evolutionary",
        "search.processes=0",
        "search.top_k=2",
        "output=report",
        "database=database",
    )
    assert tuned == 0
    result = load_result(tmp_path / "report" / "report.json")
    assert result.simulated and sum(task.candidates_measured for task in result.tasks) > 0
