"""Predicted efficiencies are brought to the scale of the measured ones on validation tasks."""

import numpy as np
import pytest
import torch
from foretune.dataset.records.split import SplitConfig
from foretune.models.architectures.cost_model import Predictor
from foretune.models.architectures.registry import ModelConfig, build_model
from foretune.models.architectures.trees import TreesCostModel
from foretune.models.scaling.target import TargetConfig
from foretune.training.fitting.datamodule import CostModelData, DataConfig
from foretune.training.fitting.training import correct_scale, line_through
from support.synthetic import dataset

EFFICIENCY = TargetConfig("efficiency")


def line(*points):
    x, y = (np.array(part, dtype=np.float32) for part in zip(*points, strict=True))
    return line_through(x, y)


def test_lines_by_hand():
    assert line((0, 1), (1, 3), (2, 5)) == pytest.approx((2, 1))
    # mean (1, 2); x - 1 = -1, 0, 1 and y - 2 = -2, 1, 1: 3 over 2
    assert line((0, 0), (1, 3), (2, 3)) == pytest.approx((1.5, 0.5))
    assert line((4, 1), (4, 3)) == pytest.approx((0, 2))


def prepared(target, tasks=20, failures=0.2):
    records = CostModelData(
        dataset(tasks=tasks, per_task=20, failures=failures),
        SplitConfig(validation=0.3),
        target,
        DataConfig(batch_size=32, keep_slow=True),
    )
    torch.manual_seed(0)
    members = [build_model(ModelConfig("mlp", {"width": 16}), records.normaliser.dims) for _ in range(2)]
    rows = records.split.validation
    rows = rows[np.isfinite(records.data.latency_s[rows])]

    def outputs(member):
        predictor = Predictor(records.normaliser, member, target)
        return predictor.table_columns(records.data.features, rows)[:, 0]

    for member in members:  # so that outputs rise with the targets
        slope, _ = line_through(outputs(member), records.targets.primary[rows])
        if slope < 0:
            with torch.no_grad():
                member.head[-1].weight.neg_()
    return records, members, outputs, records.targets.primary[rows]


def test_each_member_gets_the_scale_of_the_targets():
    records, members, outputs, targets = prepared(EFFICIENCY)
    before = [outputs(member) for member in members]
    correct_scale(members, records, EFFICIENCY)
    for member, earlier in zip(members, before, strict=True):
        now = outputs(member)
        assert line_through(now, targets) == pytest.approx((1, 0), abs=1e-3)
        assert np.square(now - targets).mean() <= np.square(earlier - targets).mean()
        np.testing.assert_array_equal(np.argsort(now), np.argsort(earlier))


@pytest.mark.parametrize("leaves", [(0.2, 0.9), (0.9, 0.2)])  # one rises with the targets
def test_trees_of_an_earlier_version_keep_their_scale(leaves):
    """Their output is a logarithm of what the leaves give; such a checkpoint is fine-tuned as before."""
    records, members, outputs, _ = prepared(EFFICIENCY)
    split = {"left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [0, 0, 0]}
    earlier = TreesCostModel(records.normaliser.dims)
    earlier._set_trees([{**split, "split_conditions": [0.0, *leaves]}], 0.0)
    earlier.least = torch.tensor(1e-4)
    assert not earlier.is_rescalable and all(member.is_rescalable for member in members)
    before = outputs(earlier)
    assert len(np.unique(before)) == 2
    correct_scale([earlier], records, EFFICIENCY)
    np.testing.assert_array_equal(outputs(earlier), before)


@pytest.mark.parametrize(("target", "tasks"), [(TargetConfig("log_score"), 20), (EFFICIENCY, 6)])
def test_relative_targets_and_few_tasks_change_nothing(target, tasks):
    records, members, outputs, _ = prepared(target, tasks)
    before = [outputs(member) for member in members]
    correct_scale(members, records, target)
    for member, earlier in zip(members, before, strict=True):
        np.testing.assert_array_equal(outputs(member), earlier)
