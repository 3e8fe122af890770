"""How many candidates are worth a validation: the residual's posterior, and where validation stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records import FailureKind
from foretune.inference.residual import (
    FIRST_SHORTLIST,
    NOISE,
    SHORTLIST,
    SPREAD_BEFORE,
    SPREAD_WEIGHT,
    TRUST,
    Posterior,
    ResidualModel,
    first_batch,
)
from foretune.inference.search_config import (
    DraftingConfig,
    OneShotConfig,
    OneShotConfigError,
    StopConfig,
)
from foretune.inference.validation import Choice, Proposal, best_of, settle, validate
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern


def knobs(*values):
    return np.array([[value] for value in values], dtype=np.float64)


def test_a_measured_candidate_is_known_up_to_the_noise():
    model = ResidualModel.fit(knobs(0, 3, 5), np.array([1.0, 0.5, 0.2]), np.array([1e-3, 4e-3, 9e-3]))
    posterior = model.posterior(knobs(0, 3, 5), np.array([1.0, 0.5, 0.2]))
    np.testing.assert_allclose(posterior.mean, -np.log([1e-3, 4e-3, 9e-3]), atol=0.02)
    assert (posterior.deviation < 1.01 * NOISE).all()


@pytest.mark.parametrize("measured", [1, 2, 20])
def test_the_posterior_is_that_of_scikit_learn(measured):
    rng = np.random.default_rng(measured)
    places, others = rng.normal(size=(measured, 5)), rng.normal(size=(30, 5))
    scores, other_scores = rng.uniform(0.01, 1, measured), rng.uniform(0.01, 1, 30)
    model = ResidualModel.fit(places, scores, rng.uniform(1e-3, 4e-3, measured))
    found = model.posterior(others, other_scores)

    length, variance = model._process._kernel.length, model._process._kernel.spread**2
    alike, itself = Matern(length, nu=1.5), Matern(0.01 * length, nu=0.5)
    kernel = ConstantKernel(0.9 * variance) * alike + ConstantKernel(0.1 * variance) * itself
    residual = model.log_speeds - TRUST * np.log(scores)
    reference = GaussianProcessRegressor(kernel, alpha=NOISE**2, optimizer=None)
    reference.fit(places, residual - residual.mean())
    mean, covariance = reference.predict(others, return_cov=True)
    np.testing.assert_allclose(found.mean, mean + residual.mean() + TRUST * np.log(other_scores), atol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-9)
    mean, deviation = reference.predict(others, return_std=True)
    np.testing.assert_allclose(model._process.alone(others), (mean, deviation), atol=1e-7)
    np.testing.assert_allclose(model._process.mean(others), mean, atol=1e-9)


def test_far_from_what_was_measured_the_frozen_model_decides():
    """A quarter of a score's logarithm is believed: 1 and 1/16 that measured 1 and 2 ms are as predicted, and
    1/256 stands for 4 ms.
    """
    assert TRUST == 0.25
    model = ResidualModel.fit(knobs(0, 1), np.array([1.0, 1 / 16]), np.array([1e-3, 2e-3]))
    posterior = model.posterior(knobs(1000), np.array([1 / 256]))
    assert posterior.mean[0] == pytest.approx(-math.log(4e-3))
    # Two residuals of zero after four of the prior's spread.
    spread = SPREAD_BEFORE * math.sqrt(SPREAD_WEIGHT / (SPREAD_WEIGHT + 2))
    assert posterior.deviation[0] == pytest.approx(spread)


def test_neighbours_are_misjudged_alike():
    """What was predicted the same turned out fast at 0 and slow at 10: that is what their neighbours get."""
    scores = np.full(4, 0.5)
    model = ResidualModel.fit(knobs(0, 0.5, 10, 10.5), scores, np.array([1e-3, 1e-3, 3e-3, 3e-3]))
    near_fast, near_slow = model.corrected(knobs(0.2, 10.2), np.array([0.5, 0.5]))
    assert near_fast > 0.5**TRUST > near_slow  # which is what they got without measurements
    assert 2.0 < near_fast / near_slow < 3.0  # shrunk towards the frozen model


def test_failures_teach_nothing():
    with_failure = ResidualModel.fit(
        knobs(0, 1, 2), np.array([1.0, 0.5, 0.9]), np.array([1e-3, 2e-3, np.inf])
    )
    without = ResidualModel.fit(knobs(0, 1), np.array([1.0, 0.5]), np.array([1e-3, 2e-3]))
    ask = knobs(3), np.array([0.7])
    np.testing.assert_allclose(with_failure.posterior(*ask).mean, without.posterior(*ask).mean)
    with pytest.raises(ValueError, match="no candidate ran"):
        ResidualModel.fit(knobs(0), np.array([1.0]), np.array([np.inf]))


def test_the_expected_improvement_is_jones_closed_form():
    """Best 1 ms (log-speed 6.908); one candidate expected 10 % faster with a deviation of 20 %."""
    best_s = 1e-3
    posterior = Posterior(np.array([0.1 - math.log(best_s)]), np.array([[0.04]]))
    rows, expected = posterior.best_batch(3, best_s)
    assert rows.tolist() == [0]
    assert expected == pytest.approx(0.1 * norm.cdf(0.5) + 0.2 * norm.pdf(0.5), rel=0.15)  # 0.1395


def test_a_batch_may_gain_more_than_its_best_unless_all_is_one():
    best_s, mean = 1e-3, np.full(4, -math.log(1e-3))
    _, apart = Posterior(mean, 0.04 * np.eye(4)).best_batch(4, best_s)
    _, alike = Posterior(mean, np.full((4, 4), 0.04)).best_batch(4, best_s)
    # The largest of four normals, or zero where none is above it, is expected at 1.05 deviations; of one
    # normal, what is above zero at 0.40.
    assert apart == pytest.approx(0.2 * 1.05, rel=0.1)
    assert alike == pytest.approx(0.2 * 0.40, rel=0.15)


def test_a_batch_takes_what_is_good_and_not_alike():
    """The second is nearly as good as the first but is misjudged as that is; the third is another kind."""
    covariance = np.array([[0.04, 0.04, 0.0], [0.04, 0.04, 0.0], [0.0, 0.0, 0.04]])
    posterior = Posterior(np.array([0.10, 0.09, 0.0]) - math.log(1e-3), covariance)
    assert posterior.best_batch(2, 1e-3)[0].tolist() == [0, 2]
    assert sorted(posterior.best_batch(5, 1e-3)[0].tolist()) == [0, 1, 2]  # each once


def test_a_batch_takes_what_gains_most_for_its_cost():
    """The first gains three times as much as the second, and costs five times as much."""
    posterior = Posterior(np.array([0.3, 0.1]) - math.log(1e-3), 1e-6 * np.eye(2))
    cost = np.array([1.0, 0.2])
    assert posterior.best_batch(1, 1e-3)[0].tolist() == [0]
    rows, expected = posterior.best_batch(1, 1e-3, cost)
    assert rows.tolist() == [1]
    assert expected == pytest.approx(0.1, rel=0.01)  # what it gains, whatever it costs
    assert posterior.best_batch(2, 1e-3, cost)[0].tolist() == [1, 0]


def test_what_each_candidate_costs_counts_among_many():
    """All alike but for their cost: of more than the shortlist holds, the cheapest come first."""
    model = ResidualModel.fit(knobs(0), np.array([0.5]), np.array([1e-3]))
    places, scores = knobs(*range(1000, 1000 + 100 * (SHORTLIST + 50), 100)), np.full(SHORTLIST + 50, 0.5)
    cost = np.linspace(2.0, 1.0, SHORTLIST + 50)
    rows, _ = model.best_batch(places, scores, 1, cost)
    assert rows[0] >= 50
    assert model.best_of([proposal(0.5, float(x), 1e-3) for x in places.ravel()], 1, cost)[0] == rows


def test_what_comes_first_is_good_and_not_alike():
    """Before anything ran: of two kinds, the better predicted one and then, at its like, the other one."""
    kinds = [proposal(0.9, 0.1 * i, 0.0) for i in range(5)] + [proposal(0.7, 90.0, 0.0)]
    rows = first_batch(kinds, 2)
    assert rows[0] < 5
    assert rows[1] == 5
    assert sorted(first_batch(kinds, 9).tolist()) == list(range(6))
    # The second is hardly worse, and takes a third of the time.
    assert first_batch([proposal(0.9, 0.0, 0.0), proposal(0.8, 9.0, 0.0)], 1, np.array([3.0, 1.0])) == [1]


def test_of_many_only_the_best_predicted_come_first():
    """What lies alone, and is predicted worst of more than the shortlist holds, is not looked at."""
    many = [proposal(0.49, 1e4, 0.0)] + [proposal(0.5, 1e-4 * i, 0.0) for i in range(FIRST_SHORTLIST)]
    assert 0 not in first_batch(many, 8)
    assert 0 in first_batch(many[:-1], 8)


# -- validation


def proposal(score, knob, latency_s):
    return Proposal(f"{score} {knob}", "[]", str(latency_s), score, np.array([knob], dtype=np.float32))


FIXED = StopConfig(expected_improvement=0.0)


class Bench:
    """Measures what the module says, and remembers in which batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, jobs):
        self.batches.append([float(job.module) for job in jobs])
        self.best_s = [job.best_latency_s for job in jobs]
        return [
            MeasureOutcome((float(job.module),))
            if math.isfinite(float(job.module))
            else MeasureOutcome(failure=FailureKind.RUN_ERROR)
            for job in jobs
        ]


def predicted_well(count=40):
    """Candidates whose latency is what their score says, up to a smooth 5 %."""
    scores = np.linspace(1.0, 0.1, count)
    return [
        proposal(score, knob, 1e-3 / score * (1 + 0.05 * math.sin(knob)))
        for knob, score in enumerate(scores.tolist())
    ]


def validated(proposals, stop, bench, most=None, earlier=()):
    """What is measured of the proposals of one round, all of them at most by default."""
    return validate(Choice(proposals, stop, earlier), bench, len(proposals) if most is None else most)


def test_a_fixed_number_is_measured_at_once_by_score():
    bench = Bench()
    done = validated(predicted_well(10)[::-1], FIXED, bench)
    assert [len(batch) for batch in bench.batches] == [10]
    assert [v.predicted_score for v in done] == sorted((v.predicted_score for v in done), reverse=True)


def test_a_good_model_needs_few_validations():
    bench = Bench()
    stop = StopConfig(expected_improvement=0.01, minimum=8, batch=4)
    done = validated(predicted_well(), stop, bench)
    assert len(bench.batches[0]) == 8
    assert 8 <= len(done) <= 20  # of 40
    assert best_of(done).latency_s == min(float(p.module) for p in predicted_well())


def test_a_model_that_knows_nothing_goes_on_until_the_measurements_tell():
    """Equal scores, and the fast ones at one end of the knob: they are found before all is measured."""
    rng = np.random.default_rng(0)
    places = rng.permutation(40)
    candidates = [proposal(0.5, float(place), 1e-3 * math.exp(place / 10)) for place in places]
    bench = Bench()
    done = validated(candidates, StopConfig(expected_improvement=0.01, minimum=8, batch=4), bench)
    assert best_of(done).latency_s == pytest.approx(1e-3)
    assert len(done) < 40


def test_what_is_slow_may_be_cut_short():
    """Each batch is told the best before it, over all rounds."""
    stop = StopConfig(expected_improvement=0.001, minimum=4, batch=4)
    bench = Bench()
    validated([proposal(0.5, 7.0 * i, 1e-3 * (20 - i)) for i in range(8)], stop, bench)
    assert len(bench.batches) == 2
    assert bench.best_s == [min(bench.batches[0])] * 4


def test_a_lower_bar_measures_at_least_as_many():
    counts = [
        len(validated(predicted_well(), StopConfig(expected_improvement=bar, patience=1), Bench()))
        for bar in (0.2, 0.05, 0.005)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 8


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_it_stops_after_so_many_batches_that_promise_little(patience):
    """After the first 8 no score is above a half, and what was measured was as predicted: none can gain."""
    candidates = [proposal(1.0 if i < 8 else 0.3, float(i), 1e-3 if i < 8 else 4e-3) for i in range(40)]
    bench = Bench()
    stop = StopConfig(expected_improvement=0.2, minimum=8, batch=4, patience=patience)
    validated(candidates, stop, bench)
    assert [len(batch) for batch in bench.batches] == [8] + [4] * (patience - 1)


def test_a_batch_that_promises_much_starts_the_count_anew(monkeypatch):
    gains = iter([0.001, 0.5, 0.001, 0.001])
    monkeypatch.setattr(
        Posterior, "best_batch", lambda self, count, best_s, cost: (np.arange(count), next(gains))
    )
    bench = Bench()
    validated(predicted_well(), StopConfig(expected_improvement=0.01, minimum=8, batch=4), bench)
    assert [len(batch) for batch in bench.batches] == [8, 4, 4, 4]


def test_earlier_rounds_count():
    stop = StopConfig(expected_improvement=0.05, minimum=8, patience=1)
    earlier = validated(predicted_well(), stop, Bench())
    poor = [proposal(0.05, 100.0 + i, 20e-3) for i in range(10)]
    bench = Bench()
    assert validated(poor, stop, bench, earlier=earlier) == []
    assert bench.batches == []


def test_where_all_failed_validation_goes_on():
    failing = [proposal(0.9, float(i), math.inf) for i in range(12)]
    bench = Bench()
    done = validated(failing, StopConfig(expected_improvement=0.05, minimum=4, batch=4), bench)
    assert [len(batch) for batch in bench.batches] == [4, 4, 4]
    assert best_of(done) is None


def test_of_many_proposals_as_many_as_there_is_room_for_are_measured():
    stop = StopConfig(expected_improvement=1e-6, minimum=4, batch=4)
    bench = Bench()
    done = validated(predicted_well(), stop, bench, most=10)
    assert [len(batch) for batch in bench.batches] == [4, 4, 2]
    assert len({id(validation.proposal) for validation in done}) == 10
    assert validated(predicted_well(), stop, bench, most=0) == []
    fixed = validated(predicted_well(), FIXED, bench, most=10)
    assert [v.predicted_score for v in fixed] == np.linspace(1.0, 0.1, 40)[:10].tolist()


def test_measurements_choose_a_kind_that_the_model_underrates():
    """Knob 0 is overrated and knob 9 underrated: the latter's like goes before what has better scores."""
    overrated = [proposal(0.9 - 0.01 * i, 0.1 * i, 4e-3) for i in range(20)]
    underrated = [proposal(0.6 - 0.01 * i, 9 + 0.1 * i, 1e-3) for i in range(20)]
    stop = StopConfig(expected_improvement=1e-3, minimum=4, batch=4)
    first = validated([*overrated[:3], underrated[0]], stop, Bench())
    bench = Bench()
    validated([*overrated[3:], *underrated[1:]], stop, bench, most=4, earlier=first)
    (batch,) = bench.batches
    assert batch.count(1e-3) >= 3


# -- finalists


class Disturbed(Bench):
    """Measures what the module says at first, and what `later` has for it from then on."""

    def __init__(self, later):
        super().__init__()
        self.later = later

    def __call__(self, jobs):
        seen = {latency_s for batch in self.batches for latency_s in batch}
        first = super().__call__(jobs)
        return [
            self.later.get(float(job.module), outcome) if float(job.module) in seen else outcome
            for job, outcome in zip(jobs, first, strict=True)
        ]


def measured_once(*latencies_s):
    return [proposal(0.9 - 0.1 * i, 7.0 * i, s) for i, s in enumerate(latencies_s)]


def settled(choice, bench, finalists):
    """A task whose proposals are all measured, and the best of them once more."""
    validate(choice, bench, 40, keep_built=True)
    settle(choice, bench, finalists)
    return choice.known


def test_what_was_disturbed_is_timed_again():
    """The second takes 0.97 ms, but looked as if it took longer than the first."""
    later = {1.2e-3: MeasureOutcome((0.97e-3, 0.98e-3), run_s=0.1)}
    proposals = measured_once(1.1e-3, 1.2e-3, 1.7e-3)
    once = validated(proposals, FIXED, Disturbed(later))
    assert best_of(once).proposal is proposals[0]
    bench = Disturbed(later)
    done = settled(Choice(proposals, FIXED), bench, 4)
    # The third is too far from the best to be it.
    assert bench.batches == [[1.1e-3, 1.2e-3, 1.7e-3], [1.1e-3, 1.2e-3]]
    assert [validation.proposal for validation in done] == proposals
    assert best_of(done).proposal is proposals[1]
    assert best_of(done).outcome.run_secs == (1.2e-3, 0.97e-3, 0.98e-3)
    assert best_of(done).outcome.run_s == pytest.approx(0.1)


def test_no_more_are_timed_again_than_asked_for():
    bench = Bench()
    settled(Choice(measured_once(1.1e-3, 1.0e-3, 1.2e-3), FIXED), bench, 2)
    assert bench.batches[1:] == [[1.0e-3, 1.1e-3]]
    settled(Choice(measured_once(1.1e-3, 1.0e-3), FIXED), bench, 0)
    assert len(bench.batches) == 3


def test_a_best_that_stands_alone_is_not_timed_again():
    bench = Bench()
    choice = Choice(measured_once(1e-3, 2e-3), FIXED)
    settled(choice, bench, 4)
    assert len(bench.batches) == 1
    # A newcomer that comes near the best of an earlier round is.
    choice.offer([proposal(0.5, 40.0, 1.1e-3), proposal(0.4, 50.0, 3e-3)])
    settled(choice, bench, 4)
    assert bench.batches[1:] == [[1.1e-3, 3e-3], [1.1e-3]]


def test_a_new_best_is_timed_again_beside_what_was_settled():
    bench = Bench()
    choice = Choice(measured_once(1.0e-3, 1.1e-3), FIXED)
    settled(choice, bench, 4)
    choice.offer([proposal(0.5, 40.0, 0.9e-3)])
    settled(choice, bench, 4)
    assert bench.batches[2:] == [[0.9e-3], [0.9e-3]]


def test_rounds_are_settled_together():
    """The best of the first round is a finalist beside what later ones bring."""
    bench = Bench()
    choice = Choice(measured_once(1.1e-3, 4e-3), FIXED)
    validate(choice, bench, 2)
    choice.offer([proposal(0.5, 40.0, 1.0e-3)])
    settled(choice, bench, 4)
    assert bench.batches == [[1.1e-3, 4e-3], [1.0e-3], [1.0e-3, 1.1e-3]]


def test_a_finalist_that_fails_is_not_the_best():
    later = {1.0e-3: MeasureOutcome(failure=FailureKind.RUN_ERROR, message="no more")}
    done = settled(Choice(measured_once(1.0e-3, 1.1e-3), FIXED), Disturbed(later), 4)
    assert best_of(done).latency_s == 1.1e-3
    assert done[0].outcome.failure is FailureKind.RUN_ERROR


def test_where_none_ran_nothing_is_timed_again():
    bench = Bench()
    settled(Choice(measured_once(math.inf, math.inf), FIXED), bench, 4)
    assert len(bench.batches) == 1


def test_only_what_may_come_again_stays_built():
    kept = []

    def measure(jobs):
        kept.extend(job.keep_built for job in jobs)
        return [MeasureOutcome((1e-3,)) for _ in jobs]

    for keep_built in (False, True):
        validate(Choice(measured_once(1e-3), FIXED), measure, 1, keep_built=keep_built)
    assert kept == [False, True]


def test_what_is_left_of_a_round_is_chosen_from_in_the_next():
    bench = Bench()
    choice = Choice(measured_once(1e-3, 2e-3, 3e-3), FIXED)
    assert len(validate(choice, bench, 1)) == 1
    choice.offer([proposal(0.85, 40.0, 4e-3)])
    assert [done.latency_s for done in validate(choice, bench, 3)] == [4e-3, 2e-3, 3e-3]
    assert validate(choice, bench, 3) == []


def test_batches_that_promise_little_are_counted_over_rounds():
    """As above, each batch a round of its own: the second that promises little ends the search."""
    candidates = [proposal(1.0 if i < 8 else 0.3, float(i), 1e-3 if i < 8 else 4e-3) for i in range(40)]
    stop = StopConfig(expected_improvement=0.2, minimum=8, batch=4, patience=2)
    choice, counts = Choice(candidates[:12], stop), []
    for start in (12, 16, 20):
        counts.append((len(validate(choice, Bench(), 8 if start == 12 else 4)), choice.over))
        choice.offer(candidates[start : start + 4])
    assert counts == [(8, False), (4, False), (0, True)]


def test_no_time_no_measurement():
    assert validate(Choice(predicted_well(), FIXED), Bench(), 40, in_time=lambda: False) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StopConfig(expected_improvement=-0.1), r"search\.stop\.expected_improvement=-0\.1"),
        (lambda: StopConfig(minimum=0), r"search\.stop\.minimum=0"),
        (lambda: StopConfig(batch=0), r"search\.stop\.batch=0"),
        (
            lambda: OneShotConfig(strategy="bayesian"),
            r"search\.strategy=bayesian: use draft, evolutionary, annealing",
        ),
        (lambda: OneShotConfig(choice=0), r"search\.choice=0"),
        (lambda: DraftingConfig(keep=0), r"search\.draft\.keep=0"),
        (lambda: OneShotConfig(overlap="some"), r"search\.overlap=some"),
        (lambda: OneShotConfig(processes=-1), r"search\.processes=-1"),
        (lambda: OneShotConfig(extra_rounds=-1), r"search\.extra_rounds=-1"),
        (lambda: OneShotConfig(least_share=-0.1), r"search\.least_share=-0\.1"),
        (lambda: OneShotConfig(early_stop=0), r"search\.early_stop=0"),
        (lambda: OneShotConfig(strategy="annealing", generations=0), r"search\.generations=0"),
    ],
)
def test_settings_that_cannot_be_are_named(make, message):
    with pytest.raises(OneShotConfigError, match=message):
        make()
