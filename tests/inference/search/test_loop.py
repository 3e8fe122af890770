"""Search loop of one task: selection, where it stops, finalists, and rounds that follow one another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from foretune.inference.search.config import StopConfig
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.measuring import jobs
from foretune.inference.surrogate.residual import Posterior
from support.search_loop import fastest, loop_of, proposal, run_round

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


def measured(proposals, stop, bench, most=None, earlier=()):
    """Measurements of one round over the proposals, all of them at most by default."""
    loop = loop_of(stop)
    loop.selector.learn(list(earlier))
    return run_round(loop, bench, proposals, len(proposals) if most is None else most)


def test_a_fixed_number_is_measured_at_once_by_score():
    bench = Bench()
    done = measured(predicted_well(10)[::-1], FIXED, bench)
    assert [len(batch) for batch in bench.batches] == [10]
    assert [v.predicted_score for v in done] == sorted((v.predicted_score for v in done), reverse=True)


def test_a_good_model_needs_few_validations():
    bench = Bench()
    stop = StopConfig(expected_improvement=0.01, minimum=8, batch=4)
    done = measured(predicted_well(), stop, bench)
    assert len(bench.batches[0]) == 8
    assert 8 <= len(done) <= 20  # of 40
    assert fastest(done).latency_s == min(float(p.module) for p in predicted_well())


def test_a_model_that_knows_nothing_goes_on_until_the_measurements_tell():
    """Equal scores, and the fast ones at one end of the knob: they are found before all is measured."""
    rng = np.random.default_rng(0)
    embeddings = rng.permutation(40)
    candidates = [
        proposal(0.5, float(embedding), 1e-3 * math.exp(embedding / 10)) for embedding in embeddings
    ]
    bench = Bench()
    done = measured(candidates, StopConfig(expected_improvement=0.01, minimum=8, batch=4), bench)
    assert fastest(done).latency_s == pytest.approx(1e-3)
    assert len(done) < 40


def test_what_is_slow_may_be_cut_short():
    """Each batch is told the best before it, over all rounds."""
    stop = StopConfig(expected_improvement=0.001, minimum=4, batch=4)
    bench = Bench()
    measured([proposal(0.5, 7.0 * i, 1e-3 * (20 - i)) for i in range(8)], stop, bench)
    assert len(bench.batches) == 2
    assert bench.best_s == [min(bench.batches[0])] * 4


def test_a_lower_bar_measures_at_least_as_many():
    counts = [
        len(measured(predicted_well(), StopConfig(expected_improvement=bar, patience=1), Bench()))
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
    measured(candidates, stop, bench)
    assert [len(batch) for batch in bench.batches] == [8] + [4] * (patience - 1)


def test_a_batch_that_promises_much_starts_the_count_anew(monkeypatch):
    gains = iter([0.001, 0.5, 0.001, 0.001])
    monkeypatch.setattr(
        Posterior, "best_batch", lambda self, count, best_s, cost: (np.arange(count), next(gains))
    )
    bench = Bench()
    measured(predicted_well(), StopConfig(expected_improvement=0.01, minimum=8, batch=4), bench)
    assert [len(batch) for batch in bench.batches] == [8, 4, 4, 4]


def test_earlier_rounds_count():
    stop = StopConfig(expected_improvement=0.05, minimum=8, patience=1)
    earlier = measured(predicted_well(), stop, Bench())
    poor = [proposal(0.05, 100.0 + i, 20e-3) for i in range(10)]
    bench = Bench()
    assert measured(poor, stop, bench, earlier=earlier) == []
    assert bench.batches == []


def test_where_all_failed_validation_goes_on():
    failing = [proposal(0.9, float(i), math.inf) for i in range(12)]
    bench = Bench()
    done = measured(failing, StopConfig(expected_improvement=0.05, minimum=4, batch=4), bench)
    assert [len(batch) for batch in bench.batches] == [4, 4, 4]
    assert fastest(done) is None


def test_of_many_proposals_as_many_as_there_is_room_for_are_measured():
    stop = StopConfig(expected_improvement=1e-6, minimum=4, batch=4)
    bench = Bench()
    done = measured(predicted_well(), stop, bench, most=10)
    assert [len(batch) for batch in bench.batches] == [4, 4, 2]
    assert len({id(validation.candidate) for validation in done}) == 10
    assert measured(predicted_well(), stop, bench, most=0) == []
    fixed = measured(predicted_well(), FIXED, bench, most=10)
    assert [v.predicted_score for v in fixed] == np.linspace(1.0, 0.1, 40)[:10].tolist()


def test_measurements_choose_a_kind_that_the_model_underrates():
    """Knob 0 is overrated and knob 9 underrated: the latter's like goes before what has better scores."""
    overrated = [proposal(0.9 - 0.01 * i, 0.1 * i, 4e-3) for i in range(20)]
    underrated = [proposal(0.6 - 0.01 * i, 9 + 0.1 * i, 1e-3) for i in range(20)]
    stop = StopConfig(expected_improvement=1e-3, minimum=4, batch=4)
    first = measured([*overrated[:3], underrated[0]], stop, Bench())
    bench = Bench()
    measured([*overrated[3:], *underrated[1:]], stop, bench, most=4, earlier=first)
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


def test_what_was_disturbed_is_timed_again():
    """The second takes 0.97 ms, but looked as if it took longer than the first."""
    later = {1.2e-3: MeasureOutcome((0.97e-3, 0.98e-3), run_s=0.1)}
    proposals = measured_once(1.1e-3, 1.2e-3, 1.7e-3)
    once = measured(proposals, FIXED, Disturbed(later))
    assert fastest(once).candidate is proposals[0]
    bench = Disturbed(later)
    loop = loop_of(FIXED, finalists=4)
    done = run_round(loop, bench, proposals)
    # The third is too far from the best to be it.
    assert bench.batches == [[1.1e-3, 1.2e-3, 1.7e-3], [1.1e-3, 1.2e-3]]
    assert [validation.candidate for validation in done] == proposals
    assert fastest(done).candidate is proposals[1]
    assert fastest(done).outcome.run_secs == (1.2e-3, 0.97e-3, 0.98e-3)
    assert fastest(done).outcome.run_s == pytest.approx(0.1)


def test_no_more_are_timed_again_than_asked_for():
    bench = Bench()
    run_round(loop_of(FIXED, finalists=2), bench, measured_once(1.1e-3, 1.0e-3, 1.2e-3))
    assert bench.batches[1:] == [[1.0e-3, 1.1e-3]]
    run_round(loop_of(FIXED, finalists=0), bench, measured_once(1.1e-3, 1.0e-3))
    assert len(bench.batches) == 3


def test_a_best_that_stands_alone_is_not_timed_again():
    bench = Bench()
    loop = loop_of(FIXED, finalists=4)
    run_round(loop, bench, measured_once(1e-3, 2e-3))
    assert len(bench.batches) == 1
    # A newcomer that comes near the best of an earlier round is.
    run_round(loop, bench, [proposal(0.5, 40.0, 1.1e-3), proposal(0.4, 50.0, 3e-3)])
    assert bench.batches[1:] == [[1.1e-3, 3e-3], [1.1e-3]]


def test_a_new_best_is_timed_again_beside_what_was_settled():
    bench = Bench()
    loop = loop_of(FIXED, finalists=4)
    run_round(loop, bench, measured_once(1.0e-3, 1.1e-3))
    run_round(loop, bench, [proposal(0.5, 40.0, 0.9e-3)])
    assert bench.batches[2:] == [[0.9e-3], [0.9e-3]]


def test_a_finalist_that_fails_is_not_the_best():
    later = {1.0e-3: MeasureOutcome(failure=FailureKind.RUN_ERROR, message="no more")}
    done = run_round(loop_of(FIXED, finalists=4), Disturbed(later), measured_once(1.0e-3, 1.1e-3))
    assert fastest(done).latency_s == 1.1e-3
    assert done[0].outcome.failure is FailureKind.RUN_ERROR


def test_where_none_ran_nothing_is_timed_again():
    bench = Bench()
    run_round(loop_of(FIXED, finalists=4), bench, measured_once(math.inf, math.inf))
    assert len(bench.batches) == 1


def test_only_what_may_come_again_stays_built():
    kept = []

    def measure(jobs):
        kept.extend(job.keep_built for job in jobs)
        return [MeasureOutcome((1e-3,)) for _ in jobs]

    for finalists in (0, 1):
        run_round(loop_of(FIXED, finalists), measure, measured_once(1e-3))
    assert kept == [False, True]


def test_what_is_left_of_a_round_is_chosen_from_in_the_next():
    bench = Bench()
    loop = loop_of(FIXED)
    assert len(run_round(loop, bench, measured_once(1e-3, 2e-3, 3e-3), 1)) == 1
    assert not loop.exhausted
    second = run_round(loop, bench, [proposal(0.85, 40.0, 4e-3)], 3)
    assert [done.latency_s for done in second] == [4e-3, 2e-3, 3e-3]
    assert run_round(loop, bench, (), 3) == []
    assert loop.exhausted


def test_batches_that_promise_little_are_counted_over_rounds():
    """As above, each batch a round of its own: the second that promises little ends the search."""
    candidates = [proposal(1.0 if i < 8 else 0.3, float(i), 1e-3 if i < 8 else 4e-3) for i in range(40)]
    stop = StopConfig(expected_improvement=0.2, minimum=8, batch=4, patience=2)
    loop, counts, start = loop_of(stop), [], 0
    for end, most in ((12, 8), (16, 4), (20, 4)):
        counts.append((len(run_round(loop, Bench(), candidates[start:end], most)), loop.exhausted))
        start = end
    assert counts == [(8, False), (4, False), (0, True)]


def test_a_round_that_is_cut_short_is_not_exhausted():
    loop = loop_of(FIXED)
    loop.start_round(predicted_well(), RoundBudget(40))
    assert not loop.exhausted  # nothing was measured, and the round is still open


def test_a_quick_round_measures_nothing_again():
    bench, loop = Bench(), loop_of(FIXED, finalists=4)
    loop.start_round(measured_once(1.1e-3, 1.0e-3), RoundBudget(2, quick=True))
    while (batch := loop.next_batch()) is not None:
        loop.learn(batch, bench(jobs(batch, loop.best_s)))
    assert len(bench.batches) == 1


def test_programs_of_a_quick_round_are_timed_again_in_the_next():
    """The first looked as if it took 1.1 ms, and takes 0.9 ms; the third beats both."""
    bench, loop = Disturbed({1.1e-3: MeasureOutcome((0.9e-3,))}), loop_of(FIXED, finalists=3)
    loop.start_round(measured_once(1.1e-3, 1.0e-3), RoundBudget(2, quick=True))
    while (batch := loop.next_batch()) is not None:
        loop.learn(batch, bench(jobs(batch, loop.best_s)))
    run_round(loop, bench, [proposal(0.5, 40.0, 0.95e-3)])
    assert bench.batches == [[1.1e-3, 1.0e-3], [0.95e-3], [0.95e-3, 1.0e-3, 1.1e-3]]
    assert (loop.best_s, loop.known[0].outcome.run_secs) == (0.9e-3, (1.1e-3, 0.9e-3))


def test_start_candidates_are_measured_first_whatever_their_score():
    bench = Bench()
    start = proposal(0.01, 50.0, 9e-3, is_start=True)
    stop = StopConfig(expected_improvement=0.2, minimum=2, batch=2)
    run_round(loop_of(stop), bench, [*measured_once(1e-3, 2e-3, 3e-3), start], 2)
    assert bench.batches == [[9e-3, 1e-3]]
    fixed = Bench()
    run_round(loop_of(FIXED), fixed, [*measured_once(1e-3, 2e-3), start], 1)
    assert fixed.batches == [[9e-3]]
