"""Ranking metrics against values worked by hand."""

import numpy as np
import pytest
from foretune.models.metrics.network_metrics import network_metrics, over_networks
from foretune.models.metrics.task_metrics import (
    by_prediction,
    evaluate,
    group_rows,
    latency_r2,
    pairwise_accuracy,
    peak_score,
    r2,
    recall,
    regret,
    rmse,
    scores_from_latency,
    spearman,
    task_mean_s,
    top_k_score,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr

finite = st.floats(-10, 10, width=32)


def test_scores_are_best_over_latency_within_each_group():
    latency_s = np.array([2.0, 1.0, np.inf, 4.0, 8.0, np.inf])
    group = np.array([0, 0, 0, 1, 1, 2])
    # best of group 0 is 1 s, of group 1 is 4 s; group 2 never ran
    np.testing.assert_array_equal(scores_from_latency(latency_s, group), [0.5, 1, 0, 1, 0.5, np.nan])


def test_group_rows_yields_every_row_once():
    rows = [chunk.tolist() for chunk in group_rows(np.array([5, 3, 5, 4]))]
    assert rows == [[1], [3], [0, 2]]


def test_rmse_and_r2_by_hand():
    prediction, score = np.array([0.5, 0.5, 1.0]), np.array([0.5, 0.2, 0.6])
    # errors 0, 0.3, 0.4 -> sum of squares 0.25
    assert rmse(prediction, score) == pytest.approx(np.sqrt(0.25 / 3))
    # mean 13/30; deviations 2/30, -7/30, 5/30 -> spread 78/900
    assert r2(prediction, score) == pytest.approx(1 - 0.25 / (78 / 900))
    assert np.isnan(r2(prediction, np.ones(3)))


def test_spearman_by_hand():
    # ranks 1,2,3 against 1,3,2: 1 - 6 * (0 + 1 + 1) / (3 * 8) = 0.5
    assert spearman(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.9, 0.5])) == pytest.approx(0.5)
    assert spearman(np.zeros(3), np.array([0.1, 0.9, 0.5])) == 0
    assert np.isnan(spearman(np.array([0.1, 0.2, 0.3]), np.ones(3)))


@given(st.integers(2, 30).flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=finite)] * 2)))
def test_spearman_agrees_with_scipy(pair):
    prediction, score = pair
    if np.ptp(prediction) > 0 and np.ptp(score) > 0:
        assert spearman(prediction, score) == pytest.approx(spearmanr(prediction, score).statistic, abs=1e-9)


def test_pairwise_accuracy_by_hand():
    score = np.array([1.0, 0.5, 0.5, 0.2])
    # five pairs differ; (0,1) right, (0,2) tied, (0,3) right, (1,3) wrong, (2,3) right
    prediction = np.array([3.0, 0.0, 3.0, 1.0])
    assert pairwise_accuracy(prediction, score) == pytest.approx((1 + 0.5 + 1 + 0 + 1) / 5)
    assert np.isnan(pairwise_accuracy(prediction, np.ones(4)))


def test_top_k_score_by_hand():
    score = np.array([1.0, 0.5, 0.8, 0.0])
    prediction = np.array([0.1, 0.9, 0.7, 1.0])  # order: row 3 (failed), 1, 2, 0
    ordered = by_prediction(prediction, score)
    assert [top_k_score(ordered, k) for k in (1, 2, 3, 4, 9)] == [0, 0.5, 0.8, 1, 1]
    with pytest.raises(ValueError, match="k=0"):
        top_k_score(ordered, 0)


def test_peak_score_by_hand():
    score = np.array([1.0, 0.5, 0.8, 0.0])
    prediction = np.array([0.1, 0.9, 0.7, 1.0])  # tops of 1 to 4: 0, 0.5, 0.8, 1
    ordered = by_prediction(prediction, score)
    assert peak_score(ordered, 1) == 0
    assert peak_score(ordered, 3) == pytest.approx((0 + 0.5 + 0.8) / 3)
    assert peak_score(ordered, 9) == pytest.approx((0 + 0.5 + 0.8 + 1) / 4)


def test_peak_score_is_tvms():
    metric = pytest.importorskip("tvm.s_tir.meta_schedule.cost_model.metric")
    rng = np.random.default_rng(3)
    score, prediction = rng.random(40), rng.random(40)
    score /= score.max()
    theirs = metric.max_curve(score[np.argsort(prediction)[::-1][:8]]).mean()
    assert peak_score(by_prediction(prediction, score), 8) == pytest.approx(theirs)


def test_recall_by_hand():
    score = np.array([1.0, 0.5, 0.8, 0.0, 0.8])
    prediction = np.array([0.1, 0.9, 0.7, 1.0, 0.2])  # order: rows 3, 1, 2, 4, 0
    ordered = by_prediction(prediction, score)
    # the two fastest are row 0 and, equally fast, rows 2 and 4
    assert recall(ordered, 2) == 0
    assert recall(ordered, 3) == pytest.approx(1 / 3)
    assert recall(ordered, 4) == pytest.approx(3 / 4)
    assert np.isnan(recall(ordered, 5))
    # two of four failed: only the two that ran can be recalled, and row 3 is among the top three
    ordered = by_prediction(np.array([0.1, 0.9, 0.8, 0.7]), np.array([1.0, 0, 0, 0.5]))
    assert recall(ordered, 3) == pytest.approx(1 / 2)


def test_regret_by_hand():
    score = np.array([1.0, 0.5, 0.8, 0.0])
    prediction = np.array([0.1, 0.9, 0.7, 1.0])
    # the first failed: as if the slowest that ran, at twice the best latency, had been chosen
    ordered = by_prediction(prediction, score)
    assert [regret(ordered, k) for k in (1, 2, 3, 4)] == pytest.approx([1, 1, 0.25, 0])


def test_latency_r2_by_hand():
    latency_s = np.array([1.0, np.e, np.inf, np.e**2])
    # logarithms 0, 1, 2 with spread 2; errors 0, 1, 0
    assert latency_r2(np.array([1.0, np.e**2, 5.0, np.e**2]), latency_s) == pytest.approx(1 - 1 / 2)


def test_the_mean_latency_of_a_task_explains_what_tasks_alone_explain():
    latency_s = np.array([1.0, np.e**2, np.inf, np.e**4, np.e**4, np.inf])
    group = np.array([7, 7, 7, 3, 3, 5])
    mean_s = task_mean_s(latency_s, group)
    assert mean_s[:5] == pytest.approx([np.e, np.e, np.e, np.e**4, np.e**4]) and np.isnan(mean_s[5])
    # logarithms 0, 2, 4, 4 with spread 2.5^2 + 0.5^2 + 2 * 1.5^2 = 11; errors 1, 1, 0, 0
    assert latency_r2(mean_s, latency_s) == pytest.approx(1 - 2 / 11)


def test_logarithmic_r2_by_hand():
    latency_s, group = np.array([1.0, 10.0, 100.0]), np.zeros(3, dtype=np.int64)
    # ln of the scores, bounded at 1/20: 0, -ln 10, -ln 20; of the predictions 0, -ln 20, -ln 20
    logs = -np.log([1, 10, 20])
    expected = 1 - np.log(2) ** 2 / np.sum(np.square(logs - logs.mean()))
    assert evaluate(np.array([1.0, -3.0, 0.0]), latency_s, group).log_r2 == pytest.approx(expected)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_a_constant_prediction_earns_nothing_by_the_order_of_rows(order):
    score = np.array([1.0, 0.5, 0.2])[order]
    assert by_prediction(np.zeros(3), score).tolist() == [0.2, 0.5, 1.0]


@given(st.integers(1, 20).flatmap(lambda n: arrays(np.float64, n, elements=st.floats(0.0, 1.0))))
def test_top_k_grows_with_k_and_reaches_the_best(score):
    prediction = np.random.default_rng(0).random(len(score))
    ordered = by_prediction(prediction, score)
    tops = [top_k_score(ordered, k) for k in range(1, len(score) + 1)]
    assert tops == sorted(tops)
    assert tops[-1] == score.max()


def test_evaluate_averages_tasks_by_hand():
    latency_s = np.array([1.0, 2.0, 4.0, 3.0, 6.0, np.inf])
    group = np.array([7, 7, 7, 9, 9, 11])
    # group 7 is ranked right; group 9 is swapped; group 11 never ran
    prediction = np.array([0.9, 0.5, 0.2, 0.5, 0.6, 0.3])
    metrics = evaluate(prediction, latency_s, group)
    assert (metrics.records, metrics.tasks) == (5, 2)
    assert metrics.spearman == pytest.approx((1 - 1) / 2)
    assert metrics.pairwise_accuracy == pytest.approx((1 + 0) / 2)
    assert metrics.top_1 == pytest.approx((1 + 0.5) / 2)
    assert metrics.top_5 == pytest.approx(1)
    assert [task.group for task in metrics.per_task] == [7, 9]
    # errors against scores 1, 0.5, 0.25, 1, 0.5
    assert metrics.rmse == pytest.approx(np.sqrt((0.01 + 0 + 0.0025 + 0.25 + 0.01) / 5))
    # weights 3 and 1 on the top-k scores
    assert evaluate(prediction, latency_s, group, {7: 3.0}).top_1 == pytest.approx((3 * 1 + 0.5) / 4)


def test_ratio_of_sums_by_hand():
    latency_s = np.array([1.0, 2.0, 30.0, 10.0, 40.0, np.inf, 8.0, 4.0])
    group = np.array([0, 0, 1, 1, 1, 2, 2, 2])
    prediction = np.array([0.9, 0.1, 0.9, 0.5, 0.1, 0.9, 0.5, 0.1])
    # best 1, 10, 4 s; first choices 1, 30 and a failure, which counts as the slowest that ran, 8 s
    metrics = evaluate(prediction, latency_s, group)
    assert metrics.top_1 == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert metrics.top_1_sums == pytest.approx(15 / 39)
    assert metrics.regret_1 == pytest.approx((0 + 2 + 1) / 3)
    weighted = evaluate(prediction, latency_s, group, {0: 10.0})
    assert weighted.top_1_sums == pytest.approx(24 / 48)
    assert weighted.top_1 == pytest.approx((10 + 1 / 3) / 12)
    assert [task.top_s(1) for task in metrics.per_task] == pytest.approx([1, 30, 8])


def test_the_top_5_of_two_tasks_by_the_sums_of_tenset():
    # Task 0: the best, 2 s, is rated sixth, and 3 s is among the first five. Task 1: 8 s is rated fifth.
    latency_s = np.array([9.0, 7.0, 5.0, 4.0, 3.0, 2.0, 20.0, 16.0, 12.0, 10.0, 8.0, 32.0])
    group = np.repeat([0, 1], 6)
    prediction = -np.arange(12.0)
    calls = {0: 5.0, 1: 1.0}
    metrics = evaluate(prediction, latency_s, group, calls)
    assert metrics.top_1_sums == pytest.approx((5 * 2 + 8) / (5 * 9 + 20))
    assert metrics.top_5_sums == pytest.approx((5 * 2 + 8) / (5 * 3 + 8))
    assert metrics.top_1 == pytest.approx((5 * 2 / 9 + 8 / 20) / 6)
    assert metrics.top_5 == pytest.approx((5 * 2 / 3 + 8 / 8) / 6)
    assert metrics.top_10_sums == 1


def test_networks_weigh_their_tasks_by_hand():
    latency_s = np.array([1.0, 2.0, 4.0, 16.0])
    metrics = evaluate(np.array([0.1, 0.9, 0.9, 0.1]), latency_s, np.array([5, 5, 6, 6]))
    names = {5: "a", 6: "b"}
    networks = {"one": {"a": 3, "b": 1, "c": 4}, "none": {"c": 1}, "two": {"b": 2}}
    one, two = network_metrics(metrics, names, networks)
    # a: best 1 s, chosen 2 s; b: best and chosen 4 s; c has no records
    assert (one.network, one.tasks, one.share) == ("one", 2, pytest.approx(4 / 8))
    assert one.top_1 == pytest.approx((3 * 0.5 + 1) / 4)
    assert one.top_1_sums == pytest.approx((3 * 1 + 4) / (3 * 2 + 4))
    assert (two.tasks, two.top_1, two.top_1_sums) == (1, 1, 1)
    total = over_networks(metrics, names, networks)
    assert total.top_1 == pytest.approx((one.top_1 + 1) / 2)
    assert total.top_1_sums == pytest.approx((3 * 1 + 4 + 2 * 4) / (3 * 2 + 4 + 2 * 4))
    assert over_networks(metrics, names, {"none": {"c": 1}}) is None


def test_evaluate_is_unchanged_by_the_order_of_rows():
    rng = np.random.default_rng(1)
    prediction, latency_s, group = rng.random(60), rng.random(60) + 0.1, rng.integers(0, 5, 60)
    shuffled = rng.permutation(60)
    first = evaluate(prediction, latency_s, group).summary()
    second = evaluate(prediction[shuffled], latency_s[shuffled], group[shuffled]).summary()
    assert first == pytest.approx(second)


def test_a_task_with_equal_scores_does_not_enter_the_rank_means():
    latency_s, group = np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1])
    metrics = evaluate(np.array([0.9, 0.1, 0.5]), latency_s, group)
    assert metrics.tasks == 2
    assert metrics.spearman == pytest.approx(1)


@pytest.mark.parametrize(
    ("prediction", "latency_s", "message"),
    [
        ([0.1], [1.0, 2.0], "1 predictions for 2 latencies"),
        ([np.nan, 0.1], [1.0, 2.0], "1 of 2 predictions are NaN"),
        ([0.2, 0.1], [np.inf, np.inf], "no task has a program that ran"),
    ],
)
def test_unusable_input_is_refused(prediction, latency_s, message):
    with pytest.raises(ValueError, match=message):
        evaluate(np.array(prediction), np.array(latency_s), np.zeros(2, dtype=np.int64))
