"""Boosted trees as a cost model: fitted by XGBoost, stored in tensors, checkpoints and ensembles."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.dataset.features.table import FeatureTable
from foretune.models.architectures.cost_model import FeatureTensors, Predictor
from foretune.models.architectures.gbdt import GbdtError
from foretune.models.architectures.registry import MemberConfig, ModelConfig, ModelConfigError, build_model
from foretune.models.architectures.trees import TreesCostModel, _Errors
from foretune.models.checkpoints.checkpoint import CorruptCheckpointError, load_checkpoint, save_checkpoint
from foretune.models.checkpoints.verification import problems
from foretune.models.metrics.task_metrics import spearman
from foretune.models.scaling.normaliser import FeatureDims, Normaliser
from foretune.models.scaling.target import TargetConfig
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig, DataError
from foretune.training.fitting.labels import Labels
from foretune.training.fitting.module import OptimiserConfig
from foretune.training.train import train_model
from safetensors.torch import load_file
from support.cards import edit_card
from support.synthetic import candidate, dataset, make_card, table

QUICK = {"rounds": 100, "max_depth": 4, "patience": 20, "learning_rate": 0.1, "column_share": 1.0}
TREES = ModelConfig("trees", QUICK)


def settings(folder, **changes):
    return TrainConfig(
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        **{
            "model": TREES,
            "data": DataConfig(batch_size=32, rivals=8),
            "trainer": TrainerConfig(max_epochs=2, progress_bar=False),
            **changes,
        },
    )


def stump(feature, threshold, left, right):
    """Tree with one split in the format of XGBoost; the right leaf comes before the left one."""
    return {
        "left_children": [2, -1, -1],
        "right_children": [1, -1, -1],
        "split_indices": [feature, 0, 0],
        "split_conditions": [threshold, right, left],
    }


def by_hand(trees, dims, base=0.0, least=0.0):
    model = TreesCostModel(dims)
    model._set_trees(trees, base)
    model.least = torch.tensor(least)
    return model.eval()


def output(model, features: FeatureTable):
    with torch.inference_mode():
        return model(FeatureTensors.of(features.batch())).numpy()


def test_trees_by_hand():
    """For two and one stores: the store with most arithmetic, mean, maximum, number, then task, hardware."""
    made = candidate(np.random.default_rng(0), n_stores=2)
    stores = np.zeros((2, 164), np.float32)
    stores[:, 0] = [-3.0, 1.0]  # the second has more arithmetic
    stores[:, 9] = [7.0, 4.0]
    features = FeatureTable.from_candidates([replace(made, stores=stores), replace(made, stores=stores[:1])])
    dims = FeatureDims.of(features)
    main, mean, greatest, count, task = 9, 164 + 9, 328 + 9, 492, 493
    summary = TreesCostModel(dims)._summary(FeatureTensors.of(features.batch())).numpy()
    assert summary[:, [main, mean, greatest, count]].tolist() == [[4, 5.5, 7, 2], [7, 7, 7, 1]]
    np.testing.assert_array_equal(summary[:, task:], np.hstack([features.task, features.hardware]))

    # a value at the threshold goes right
    trees = [stump(main, 7.0, 1.0, 2.0), stump(greatest, 7.0, 10.0, 20.0), stump(count, 1.5, 100.0, 200.0)]
    np.testing.assert_allclose(output(by_hand(trees, dims, 0.5), features), [221.5, 122.5])
    assert output(TreesCostModel(dims), features).tolist() == [0.0, 0.0]
    # 0.4, and a score below the least on the logarithmic scale, which is 0 at a twentieth
    logarithm = by_hand([stump(greatest, 7.5, 0.4, 9.0), stump(count, 1.5, -1.0, 0.0)], dims, least=1 / 20)
    np.testing.assert_allclose(output(logarithm, features), [1 + np.log(0.4) / np.log(20), 0.0], atol=1e-6)


def test_trees_are_rescaled_unless_their_output_is_a_logarithm():
    features = FeatureTable.from_candidates([candidate(np.random.default_rng(0), n_stores=2)])
    dims = FeatureDims.of(features)
    model = by_hand([stump(492, 1.5, 100.0, 200.0)], dims, 0.5)
    model.rescale(0.5, 3.0)
    np.testing.assert_allclose(output(model, features), [0.5 * 200.5 + 3.0])
    with pytest.raises(ValueError, match="logarithm"):
        by_hand([stump(492, 1.5, 0.1, 0.2)], dims, least=1 / 20).rescale(0.5, 0.0)


@pytest.mark.parametrize("target", ["score", "log_score", "efficiency"])
def test_they_predict_what_xgboost_predicts(target):
    """Trees of scores are fitted to scores on any scale, those of efficiencies to logarithms."""
    xgboost = pytest.importorskip("xgboost")
    data = dataset(tasks=12, per_task=30)
    normaliser = Normaliser.fit(data.features, np.arange(len(data)))
    features, wanted = normaliser.table(data.features), Labels.of(data).score.astype(np.float32)
    train, validation, rows = np.arange(240), np.arange(240, 360), np.arange(360)
    model = TreesCostModel(normaliser.dims, **QUICK)
    told = []
    given = (features, train, validation, normaliser, wanted, Labels.of(data).group, TargetConfig(target))
    trees = model.fit(*given, seed=3, progress=told.append)
    assert 1 < trees <= told[-1] == len(told) and len(model.roots) == trees

    inputs = model._summaries(features, rows)
    labels = TargetConfig(target).encode(wanted.astype(np.float64)) if target == "efficiency" else wanted
    theirs = xgboost.train(
        {"max_depth": 4, "eta": 0.1, "subsample": 0.7, "base_score": float(labels[train].mean()), "seed": 3},
        xgboost.DMatrix(inputs[train], label=labels[train]),
        num_boost_round=trees,
    )
    expected = theirs.predict(xgboost.DMatrix(inputs))
    if target == "log_score":
        expected = np.maximum(expected, 1 / 20)
    if target == "efficiency":
        expected = TargetConfig(target).decode(expected)
    predictor = Predictor(normaliser, model, TargetConfig(target))
    np.testing.assert_allclose(predictor.predict_table(data.features, rows), expected, atol=1e-5)
    other = TreesCostModel(normaliser.dims, **QUICK)
    other.fit(*given, seed=4)
    assert not np.array_equal(output(other, features), output(model, features))


@pytest.mark.parametrize(("offset", "matters"), [(0.0, False), (0.2, True), (1.0, True)])
def test_what_the_scores_of_a_task_share_matters_by_the_offset(offset, matters):
    pytest.importorskip("xgboost")
    data = dataset(tasks=12, per_task=30)
    normaliser = Normaliser.fit(data.features, np.arange(len(data)))
    features, labels = normaliser.table(data.features), Labels.of(data)
    score = labels.score.astype(np.float32)
    shared = np.random.default_rng(0).uniform(-0.5, 0.5, labels.group.max() + 1).astype(np.float32)
    within = []
    for wanted in (score, score + shared[labels.group]):
        model = TreesCostModel(normaliser.dims, **QUICK)
        model.fit(
            *(features, np.arange(240), np.arange(240, 360), normaliser, wanted, labels.group),
            *(TargetConfig("score"), offset),
        )
        made = output(model, features).reshape(12, 30)
        within.append(made - made.mean(axis=1, keepdims=True))
    assert np.allclose(*within, atol=1e-3) is not matters


def test_the_errors_of_the_plain_offset_are_those_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(1)
    inputs, wanted = rng.normal(size=(200, 6)), rng.uniform(size=200).astype(np.float32)
    matrix = xgboost.DMatrix(inputs, label=wanted)
    settings = {"max_depth": 3, "base_score": 0.5}
    errors = _Errors(wanted, np.arange(200) // 20, 1.0)
    ours = xgboost.train(settings, matrix, 10, obj=errors.objective).predict(matrix)
    np.testing.assert_allclose(ours, xgboost.train(settings, matrix, 10).predict(matrix), atol=1e-5)
    assert errors.metric(ours, matrix)[1] == pytest.approx(np.mean((ours - wanted) ** 2), rel=1e-5)


def test_the_store_of_most_arithmetic_is_that_of_raw_features():
    """Counts are scaled back, as one rare operation would otherwise outweigh many common ones."""
    pytest.importorskip("xgboost")
    made = candidate(np.random.default_rng(0), n_stores=2)
    stores = np.zeros((2, 164), np.float32)
    stores[:, 0] = [9.0, 1.0]
    stores[:, 5] = [0.0, 1.0]
    rare = table(40)
    rare.stores[:, :7] = 0
    rare.stores[:, 0] = np.linspace(0, 20, len(rare.stores))
    rare.stores[0, 5] = 1
    normaliser = Normaliser.fit(rare, np.arange(40))
    model = TreesCostModel(normaliser.dims, rounds=1)
    score = np.linspace(0, 1, 40, dtype=np.float32)
    rows = np.arange(40)
    model.fit(normaliser.table(rare), rows, rows[:0], normaliser, score, rows, TargetConfig())
    busy = FeatureTable.from_candidates([replace(made, stores=stores)])
    normalised = normaliser.table(busy)
    assert normalised.stores[1, :7].sum() > normalised.stores[0, :7].sum()
    np.testing.assert_array_equal(model._summaries(normalised, np.arange(1))[0, :164], normalised.stores[0])


def test_features_that_are_not_numbers_are_noticed():
    features = table(4)
    predictor = Predictor(
        Normaliser.fit(features, np.arange(4)), TreesCostModel(FeatureDims.of(features)), TargetConfig()
    )
    batch = features.batch()
    batch.task[2, 5] = np.nan
    with pytest.raises(ValueError, match="candidate 2 contain NaN"):
        predictor.predict(batch)


def test_padding_does_not_matter():
    features = table(8)
    dims = FeatureDims.of(features)
    model = by_hand([stump(0, 0.0, 1.0, 2.0)], dims)
    together = output(model, features)
    for row in range(8):
        np.testing.assert_array_equal(output(model, features.take(np.array([row]))), together[[row]])


def test_trees_are_trained_saved_loaded_and_verified(tmp_path):
    pytest.importorskip("xgboost")
    data = dataset(tasks=40, per_task=24)
    config = settings(tmp_path, target=TargetConfig("log_score"))
    result = train_model(config, data, "1")
    assert result.epochs == 0
    loaded = load_checkpoint(result.checkpoint_dir, "1")
    assert loaded.card.model == TREES and set(loaded.card.metrics) == {"validation", "test"}
    rows = np.flatnonzero(np.isin(data.workload_hash, loaded.card.split.train_tasks))
    assert spearman(loaded.predictor.predict_table(data.features, rows), Labels.of(data).score[rows]) > 0.5
    again = train_model(replace(config, checkpoint_dir=tmp_path / "again"), data, "1").checkpoint_dir
    assert load_checkpoint(again).card.weights_sha256 == loaded.card.weights_sha256
    complaints = [problem for problem in problems(str(result.checkpoint_dir)) if "version" not in problem]
    assert complaints == []


def test_an_ensemble_of_kinds_is_trained_saved_and_trained_further(tmp_path):
    pytest.importorskip("xgboost")
    data = dataset(tasks=12, per_task=16)
    model = ModelConfig("mlp", {"width": 16}, 2, beside=[MemberConfig("trees", QUICK)])
    assert model.title == "2 x mlp + trees"
    first = train_model(settings(tmp_path / "a", model=model), data, "1")
    loaded = load_checkpoint(first.checkpoint_dir, "1")
    assert loaded.card.model == model and "coverage_90" in loaded.card.metrics["test"]
    frozen = settings(
        tmp_path / "b",
        start_from=str(first.checkpoint_dir),
        train_only=["head"],
        optimiser=OptimiserConfig(learning_rate=1e-2),
    )
    more = dataset(tasks=12, per_task=8, seed=1)
    moved = load_checkpoint(train_model(frozen, more, "1").checkpoint_dir).predictor.model.state_dict()
    before = loaded.predictor.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], moved[name])}
    assert changed and all(".head." in name for name in changed)  # a tree has no head, so it is unchanged
    free = replace(
        frozen, train_only=[], run_dir=tmp_path / "c", checkpoint_dir=tmp_path / "c" / "checkpoint"
    )
    moved = load_checkpoint(train_model(free, more, "1").checkpoint_dir).predictor.model.state_dict()
    of_trees = {name.rpartition(".")[2] for name in before if "members.2." in name}
    changed = {
        name for name in of_trees if not torch.equal(before[f"members.2.{name}"], moved[f"members.2.{name}"])
    }
    assert changed == {"leaves"} and of_trees > changed


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("child", lambda t: torch.zeros_like(t)),  # a child before its node: an endless path
        ("child", lambda t: t + len(t)),
        ("child", lambda t: t.float()),
        ("features", lambda t: t.int()),
        # its right child is missing
        ("child", lambda t: torch.tensor([2, 1, 2], dtype=torch.int32)),
        ("features", lambda t: t - 1),
        ("features", lambda t: t + 10_000),
        ("roots", lambda t: t + 100_000),
        ("roots", lambda t: t[:0]),
        ("thresholds", lambda t: torch.zeros_like(t)),
        ("thresholds", lambda t: t[:-1]),
    ],
)
def test_what_are_no_trees_is_refused(tmp_path, name, edit):
    features = table(8)
    dims = FeatureDims.of(features)
    model = by_hand([stump(0, 0.0, 1.0, 2.0)], dims)
    state = {key: edit(value) if key == name else value for key, value in model.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"do not form trees of depth 8|size mismatch"):
        TreesCostModel(dims).load_state_dict(state, assign=True)


def test_a_long_chain_of_questions_is_refused():
    """Each node leads to the next two, so the number of paths is exponential."""
    dims = FeatureDims.of(table(2))
    nodes = 100
    child = torch.arange(nodes, dtype=torch.int32) + 1
    child[-2:] = torch.arange(nodes - 2, nodes)
    thresholds = torch.zeros(nodes)
    thresholds[-2:] = torch.finfo(torch.float32).max
    state = {
        "leaves": torch.zeros(nodes),
        "child": child,
        "features": torch.zeros(nodes, dtype=torch.int16),
        "thresholds": thresholds,
        "roots": torch.zeros(1, dtype=torch.int32),
        "least": torch.zeros(()),
        "effort": torch.ones(7),
    }
    with pytest.raises(RuntimeError, match="do not form trees of depth 8"):
        TreesCostModel(dims).load_state_dict(state, assign=True)


def test_damaged_trees_are_a_corrupt_checkpoint(tmp_path):
    pytest.importorskip("xgboost")
    checkpoint = train_model(settings(tmp_path), dataset(tasks=8, per_task=12), "1").checkpoint_dir
    loaded = load_checkpoint(checkpoint)
    model = loaded.predictor.model
    model.child[:] = 0
    save_checkpoint(tmp_path / "damaged", model, loaded.card)
    assert set(load_file(tmp_path / "damaged" / "model.safetensors")) == set(model.state_dict())
    with pytest.raises(CorruptCheckpointError, match="do not form trees"):
        load_checkpoint(tmp_path / "damaged")


def test_settings_out_of_range_and_mixtures_that_read_other_features_are_refused(tmp_path):
    dims = FeatureDims.of(table(2))
    with pytest.raises(GbdtError, match=r"row_share=0, column_share=0\.1: set each within"):
        TreesCostModel(dims, row_share=0)
    with pytest.raises(ModelConfigError, match=r"max_depth=0 must be .*'trees'"):
        build_model(ModelConfig("trees", {"max_depth": 0}), dims)
    with pytest.raises(ModelConfigError, match=r"model\.beside: mlp \+ draft read different features"):
        ModelConfig("mlp", beside=[MemberConfig("draft")])
    with pytest.raises(DataError, match=r"data\.without has stores"):
        without = DataConfig(batch_size=32, rivals=8, without=["stores"])
        train_model(settings(tmp_path, data=without), dataset(tasks=8, per_task=12), "1")


def test_cards_of_before_have_no_other_kinds(tmp_path):
    normaliser = Normaliser.fit(table(20), np.arange(20))
    model = ModelConfig("mlp", {"width": 16})
    save_checkpoint(tmp_path / "old", build_model(model, normaliser.dims), make_card(normaliser, model))
    file = tmp_path / "old" / "card.json"
    values = json.loads(file.read_text())
    assert values["model"].pop("beside") == []
    edit_card(tmp_path / "old", model=values["model"], schema_version=3)
    assert load_checkpoint(tmp_path / "old").card.model == model
