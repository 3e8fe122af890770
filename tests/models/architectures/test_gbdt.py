"""The gradient-boosted baseline sums over stores, is the model that TVM fits, and learns made-up data."""

from __future__ import annotations

import json
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from foretune.models.architectures.gbdt import GbdtConfig, GbdtError, GbdtPredictor, _store_rows
from foretune.models.metrics.task_metrics import spearman
from foretune.models.scaling.target import TargetConfig
from foretune.training.fitting.labels import Labels
from support.synthetic import dataset, table

pytest.importorskip("xgboost")

QUICK = {"rounds": 60, "max_depth": 6}


def test_rows_of_stores_by_candidate():
    features, rows = table(6), np.array([4, 1, 4])
    inputs, owner = _store_rows(features, rows)
    slices = [slice(*features.store_offsets[row : row + 2]) for row in rows]
    lengths = [part.stop - part.start for part in slices]
    np.testing.assert_array_equal(owner, np.repeat([0, 1, 2], lengths))
    np.testing.assert_array_equal(inputs[:, :164], np.concatenate([features.stores[part] for part in slices]))
    task = slice(164, 164 + features.task.shape[1])
    np.testing.assert_array_equal(inputs[owner == 1, task], [features.task[1]] * lengths[1])
    stores_alone, _ = _store_rows(features, rows, ())
    np.testing.assert_array_equal(stores_alone, inputs[:, :164])


def test_it_fits_sums_over_stores():
    data = dataset(tasks=6, per_task=40)
    score, rows = Labels.of(data).score, np.arange(len(data))
    config = GbdtConfig(context=["task", "hardware"], **QUICK)
    fitted = GbdtPredictor.fit(data.features, rows, score, config=config)
    assert spearman(fitted.predict_table(data.features, rows), score) > 0.9


def test_before_the_first_tree_a_store_adds_the_base_score():
    data = dataset(tasks=2, per_task=5)
    score, rows = Labels.of(data).score, np.arange(len(data))
    for base_score in (0.0, 0.5):
        config = GbdtConfig(rounds=0, base_score=base_score)
        none = GbdtPredictor.fit(data.features, rows, score, config=config)
        stores = np.diff(data.features.store_offsets)
        np.testing.assert_allclose(none.predict_table(data.features, rows), base_score * stores)


def test_the_first_tree_by_hand():
    """Two candidates of one store with different features, scores 1 and 0.1, one tree of depth 1."""
    data = dataset(tasks=1, per_task=2)
    features = data.features.take(np.array([0, 1]))
    object.__setattr__(features, "stores", np.eye(2, 164, dtype=np.float32))
    object.__setattr__(features, "store_offsets", np.array([0, 1, 2]))
    config = GbdtConfig(rounds=1, max_depth=1, gamma=0.0)
    rows, score = np.arange(2), np.array([1.0, 0.1])

    def predictions(**changes):
        fitted = GbdtPredictor.fit(
            features, rows, score, config=GbdtConfig(**{**vars(config), "base_score": 0.0, **changes})
        )
        return fitted.predict_table(features, rows)

    # leaf = -eta G / (H + 1), with G = -y and H = 1, and with weights G = -y^2 and H = y
    np.testing.assert_allclose(predictions(weighted=False), [0.2 * 1 / 2, 0.2 * 0.1 / 2], rtol=1e-5)
    np.testing.assert_allclose(predictions(), [0.2 * 1 / 2, 0.2 * 0.01 / 1.1], rtol=1e-5)


def test_it_is_the_model_that_tvm_fits():
    xgb_model = pytest.importorskip("tvm.s_tir.meta_schedule.cost_model.xgb_model")
    data = dataset(tasks=3, per_task=30, failures=0.1)
    score, rows = Labels.of(data).score, np.arange(len(data))
    stores = [data.features.stores[start:end] for start, end in pairwise(data.features.store_offsets)]
    # With a low minimum gain of a split both end by early stopping, not by the limit of rounds.
    theirs = object.__new__(xgb_model.XGBModel._cls)  # its constructor asks TVM for an extractor
    theirs.config = xgb_model.XGBConfig(nthread=1, gamma=0.05)
    theirs.early_stopping_rounds, theirs.verbose_eval, theirs.average_peak_n = 50, 25, 32
    theirs._train(xs=stores, ys=score.astype(np.float32))
    ours = GbdtPredictor.fit(data.features, rows, score, config=GbdtConfig(gamma=0.05))
    assert ours.rounds == theirs.booster.num_boosted_rounds() < 1000
    np.testing.assert_allclose(ours.predict_table(data.features, rows), theirs._predict(stores), atol=1e-6)


def test_stopping_by_other_tasks_goes_back_to_the_best_round():
    data = dataset(tasks=6, per_task=30)
    score, rows = Labels.of(data).score, np.arange(len(data))
    reported = []
    fitted = GbdtPredictor.fit(
        data.features,
        rows[:120],
        score,
        TargetConfig("log_score"),
        GbdtConfig(stop_on="validation", patience=3, max_depth=3),
        validation=rows[120:],
        progress=reported.append,
    )
    assert reported == list(range(1, fitted.rounds + 4))


def test_trees_are_fitted_on_torchs_threads_whose_number_does_not_change_them(monkeypatch):
    data = dataset(tasks=4, per_task=30)
    score, rows = Labels.of(data).score, np.arange(len(data))

    def fitted(threads):
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        booster = GbdtPredictor.fit(data.features, rows, score, config=GbdtConfig(rounds=5)).booster
        assert json.loads(booster.save_config())["learner"]["generic_param"]["nthread"] == str(threads)
        return booster.get_dump()

    assert fitted(1) == fitted(2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": ["tasks"]}, "'tasks' is unknown, choose from task, hardware"),
        ({"stop_on": "test"}, "stop_on='test' is unknown"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(GbdtError, match=message):
        GbdtConfig(**settings)


def test_what_it_needs_is_named(monkeypatch):
    data = dataset(tasks=1, per_task=4)
    rows, score = np.arange(4), np.ones(4)
    with pytest.raises(GbdtError, match="needs validation rows"):
        GbdtPredictor.fit(data.features, rows, score, config=GbdtConfig(stop_on="validation"))
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(GbdtError, match=r"foretune\[xgboost\]"):
        GbdtPredictor.fit(data.features, rows, score)
