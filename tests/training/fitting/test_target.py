"""Training targets: scores of a task, and efficiencies, which give seconds."""

from dataclasses import replace

import numpy as np
import pytest
from foretune.dataset.features.roofline import latency_bound_s
from foretune.models.scaling.target import TARGETS, TargetConfig, TargetError
from foretune.training.fitting.datamodule import Targets
from foretune.training.fitting.labels import Labels
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic import dataset


def test_log_target_by_hand():
    target = TargetConfig("log_score", max_slowdown=100.0)
    # ln(0.1) / ln(100) = -0.5; 0 and 0.001 are beyond the slow-down
    np.testing.assert_allclose(target.encode(np.array([1, 0.1, 0.001, 0])), [1, 0.5, 0, 0], atol=1e-6)
    np.testing.assert_allclose(target.decode(np.array([1, 0.5, 0], np.float32)), [1, 0.1, 0.01], atol=1e-6)


def test_efficiency_by_hand():
    target = TargetConfig("efficiency", min_efficiency=1e-4)
    # from 1e-4 to 1 in four decades; 10 is a decade above the roofline, which caches allow
    y = target.encode(np.array([1, 0.1, 0.01, 1e-5, 0, 10]))
    np.testing.assert_allclose(y, [1, 0.75, 0.5, 0, 0, 1.25], atol=1e-6)
    np.testing.assert_allclose(target.decode(y[:3]), [1, 0.1, 0.01], rtol=1e-5)
    # a device that could do it in 2 ms at least, at efficiency 0.01
    seconds = target.latency_s(np.array([0.5, 1], np.float32), np.array([2e-3, 2e-3]))
    np.testing.assert_allclose(seconds, [0.2, 2e-3], rtol=1e-6)
    assert seconds.dtype == np.float64


@given(st.floats(0.05, 1.0), st.sampled_from(TARGETS))
def test_targets_survive_the_round_trip(quantity, name):
    target = TargetConfig(name)
    assert target.decode(target.encode(np.array([quantity])))[0] == pytest.approx(quantity, rel=1e-4)


@given(st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=8, unique=True), st.sampled_from(TARGETS))
def test_decoding_keeps_ranks_of_a_task(outputs, name):
    output = np.array(sorted(outputs), np.float32)
    decoded = TargetConfig(name).decode(output)
    assert (np.diff(decoded) >= 0).all()


def test_efficiencies_become_scores_within_their_tasks():
    group = np.array([7, 3, 7, 3])
    decoded = np.array([0.5, 0.1, 0.25, 0.3], np.float32)
    scores = TargetConfig("efficiency").comparable(decoded, group)
    np.testing.assert_allclose(scores, [1, 1 / 3, 0.5, 1], rtol=1e-6)
    np.testing.assert_array_equal(TargetConfig("score").comparable(decoded, group), decoded)
    assert len(TargetConfig("efficiency").comparable(decoded[:0], group[:0])) == 0


def test_scores_give_no_seconds():
    with pytest.raises(TargetError, match=r"log_score, which ranks.*of target\.name=efficiency"):
        TargetConfig("log_score").latency_s(np.ones(1, np.float32), np.ones(1))


def test_unknown_targets_are_refused():
    with pytest.raises(TargetError, match=r"target\.name='flops'"):
        TargetConfig("flops")
    with pytest.raises(TargetError, match=r"target\.max_slowdown=1"):
        TargetConfig(max_slowdown=1)
    with pytest.raises(TargetError, match=r"target\.min_efficiency=1"):
        TargetConfig(min_efficiency=1)


def test_an_efficiency_needs_no_best_program():
    data = dataset(tasks=2, per_task=4)
    target = TargetConfig("efficiency")
    data.latency_s[:] = np.inf
    data.latency_s[[0, 5]] = 10 * latency_bound_s(data.features)[[0, 5]]  # efficiency 0.1
    made = Targets.of(data, Labels.of(data), target, ("score",))
    np.testing.assert_allclose(made.primary[[0, 5]], 0.75, atol=1e-6)
    assert not np.delete(made.primary, [0, 5]).any() and made.shares.shape == (8, 0)
    # the best program of a task does not matter
    worse = replace(data, latency_s=data.latency_s.copy())
    worse.latency_s[1] = data.latency_s[0] / 5
    again = Targets.of(worse, Labels.of(worse), target, ("score",)).primary
    assert again[0] == made.primary[0]
    assert Targets.of(worse, Labels.of(worse), TargetConfig(), ("score",)).primary[0] == pytest.approx(0.2)


def test_shares_are_targets_by_their_names():
    data = dataset(tasks=1, per_task=2)
    data.instructions[:], data.moved_bytes[:] = 5e5, [[0, 0, 0, 1e5], [0, 0, 0, 1e3]]
    data.latency_s[:] = [0.01, np.inf]  # the synthetic device has 1 GFLOP/s and 1 GB/s: 1 ms and 0.1 ms
    made = Targets.of(data, Labels.of(data), TargetConfig(), ("score", "core", "memory", "log_variance"))
    # shares 0.1 and 0.01 of the latency are 2/3 and 1/3 on the logarithmic scale from 0.001; a failure is 0
    np.testing.assert_allclose(made.shares, [[2 / 3, 1 / 3], [0, 0]], atol=1e-6)
