"""Draft model end to end: trained on records, evaluated, loaded and used in a search."""

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
import tvm
from foretune.compiler.operators import Dense
from foretune.compiler.structure import DRAFT_VERSION
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.task import Task, count_flops
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.records.split import SplitConfig
from foretune.dataset.records.store import RecordStore
from foretune.inference.search.cost_model import PretrainedCostModel
from foretune.inference.strategies.draft.drafts import DraftRequest
from foretune.inference.strategies.draft.model import DraftModel
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.checkpoint import FeatureVersionError, load_checkpoint
from foretune.training import evaluate, train
from foretune.training.evaluate import EvaluateConfig
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig
from foretune.training.fitting.feature_source import load_features
from foretune.training.fitting.module import OptimiserConfig
from support.drafts import drafter_of
from support.in_this_process import features_in_this_process
from support.records import HARDWARE, record, task_row

TARGET = parse_target('{"kind": "llvm", "num-cores": 2}')


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Records of dense layers whose made-up latency falls with the innermost tile of the columns."""
    store = RecordStore(tmp_path_factory.mktemp("records"))
    rng = np.random.default_rng(0)
    with store.writing():
        store.put_hardware(HARDWARE)
        for number in range(8):
            module = as_task_module(Dense(rows=8 * (number + 1), in_features=32, out_features=64).prim_func())
            context = make_tune_context(module, TARGET, seed=0)
            spaces = read_spaces(context, read_structure(module), "dense")
            (space,) = [space for space in spaces if not space.sketch.cached_write]
            drawn = space.sample(24, rng)
            vector = space.values(drawn)[:, 7]  # rows have columns 0 to 3, columns 4 to 7
            store.append_tasks(
                [replace(task_row(f"t{number}"), operator="dense", tir=tvm.ir.save_json(module))]
            )
            rows = zip(space.traces(drawn), vector.tolist(), strict=True)
            store.append_records(
                [
                    replace(
                        record(i, run_secs=(1e-3 / lanes,), task=f"t{number}"),
                        trace=trace,
                        target=str(TARGET),
                    )
                    for i, (trace, lanes) in enumerate(rows)
                ]
            )
    return store.folder


@pytest.fixture(scope="module", autouse=True)
def in_this_process():
    with features_in_this_process():
        yield


@pytest.fixture(scope="module")
def trained(dataset, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    config = TrainConfig(
        dataset=dataset,
        run_dir=run_dir,
        checkpoint_dir=run_dir / "checkpoint",
        model=ModelConfig("draft", {"width": 64}),
        data=DataConfig(batch_size=32, rivals=8, keep_slow=True),
        optimiser=OptimiserConfig(learning_rate=3e-3),
        trainer=TrainerConfig(max_epochs=25, threads=1, progress_bar=False),
    )
    return train.run(config)


def test_a_draft_model_learns_from_the_records_of_the_others(dataset):
    drafts, whole = (load_features(dataset, version) for version in (DRAFT_VERSION, FEATURE_VERSION))
    assert drafts.features.batch().stores.shape == (len(whole), 1, 1)
    np.testing.assert_array_equal(drafts.features.task, whole.features.task)
    np.testing.assert_array_equal(drafts.moved_bytes, whole.moved_bytes)
    assert drafts.latency_s.tolist() == whole.latency_s.tolist()


def test_training_learns_from_decisions(trained):
    assert trained.metrics["test"].spearman > 0.6  # 0.70 to 0.96 by seed


def test_a_draft_model_is_trained_further_whatever_the_model_is_set_to(trained, dataset, tmp_path):
    config = TrainConfig(
        dataset=dataset,
        run_dir=tmp_path,
        checkpoint_dir=tmp_path / "checkpoint",
        model=ModelConfig("mlp"),
        split=SplitConfig(by="list"),
        start_from=str(trained.checkpoint_dir),
        trainer=TrainerConfig(max_epochs=1, threads=1, progress_bar=False),
    )
    further = train.run(config)
    before, after = (load_checkpoint(run.checkpoint_dir, DRAFT_VERSION).card for run in (trained, further))
    assert after.model == before.model
    assert json.loads((tmp_path / "config.json").read_text())["model"] == asdict(before.model)


def test_a_held_out_network_takes_what_others_share_with_it(dataset, tmp_path):
    folder = tmp_path / "set"
    shutil.copytree(dataset, folder)
    (folder / "networks.json").write_text('{"net": {"t1": 1, "t4": 2}}')  # the source of both is another
    config = TrainConfig(
        dataset=folder,
        run_dir=tmp_path / "run",
        checkpoint_dir=tmp_path / "checkpoint",
        model=ModelConfig("draft", {"width": 8}),
        split=SplitConfig(by="network", networks=["net"], validation=0.2),
        trainer=TrainerConfig(max_epochs=1, threads=1, progress_bar=False),
    )
    assert train.run(config).metrics["test"].tasks == 2
    card = load_checkpoint(tmp_path / "checkpoint").card
    assert card.split.test_tasks == ["t1", "t4"] and not {"t1", "t4"} & {*card.split.seen_tasks}


def test_evaluation_takes_draft_checkpoints(trained, dataset, tmp_path):
    config = EvaluateConfig(
        checkpoint=str(trained.checkpoint_dir), dataset=dataset, output=tmp_path / "e.json", part="test"
    )
    assert evaluate.run(config).model.spearman == pytest.approx(trained.metrics["test"].spearman, abs=1e-6)


def test_the_search_finds_what_was_fast(trained):
    module = as_task_module(Dense(rows=72, in_features=32, out_features=64).prim_func())
    task = Task("dense", module, 1, "operator", "dense", {}, count_flops(module))
    model = DraftModel.load(trained.checkpoint_dir, HARDWARE)
    assert model.checkpoint.card.feature_version == DRAFT_VERSION
    drafter = drafter_of(task, TARGET, model)
    best = drafter.draft(DraftRequest(population=256, generations=4, keep=1))[0]
    assert ",64]" in best.trace.rpartition("]],[[")[2]  # the widest vector that the columns allow


def test_a_model_of_programs_refuses_it(trained):
    with pytest.raises(FeatureVersionError, match=DRAFT_VERSION):
        PretrainedCostModel.load(trained.checkpoint_dir)
    with pytest.raises(FeatureVersionError, match=DRAFT_VERSION):
        DraftModel.load("cpu", HARDWARE)
