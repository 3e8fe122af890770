"""The gradient-boosted baseline sums over stores and learns the made-up dataset."""

import numpy as np
import pytest
from foretune.models.gbdt import GbdtConfig, GbdtPredictor, _store_rows
from foretune.models.metrics import spearman
from foretune.models.target import TargetConfig
from foretune.training.labels import Labels
from synthetic import dataset, table

pytest.importorskip("xgboost")


def test_rows_of_stores_by_candidate():
    features, rows = table(6), np.array([4, 1, 4])
    inputs, owner = _store_rows(features, rows)
    slices = [slice(*features.store_offsets[row : row + 2]) for row in rows]
    lengths = [part.stop - part.start for part in slices]
    np.testing.assert_array_equal(owner, np.repeat([0, 1, 2], lengths))
    np.testing.assert_array_equal(inputs[:, :164], np.concatenate([features.stores[part] for part in slices]))
    np.testing.assert_array_equal(inputs[owner == 1, 164:180], [features.task[1]] * lengths[1])


def test_it_fits_sums_over_stores():
    data = dataset(tasks=6, per_task=40)
    labels, rows = Labels.of(data), np.arange(len(data))
    fitted = GbdtPredictor.fit(data.features, rows, labels.score, TargetConfig(), GbdtConfig(rounds=60))
    assert spearman(fitted.predict_table(data.features, rows), labels.score) > 0.9
    # before the first tree every store adds 0, so a candidate does not gain by its number of stores
    none = GbdtPredictor.fit(data.features, rows, labels.score, TargetConfig(), GbdtConfig(rounds=0))
    assert not none.predict_table(data.features, rows).any()
