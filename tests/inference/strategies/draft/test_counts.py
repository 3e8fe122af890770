"""Counts of the candidates of a search, from the strategy to the result of the task."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from foretune.compiler.spaces.measurable_space import CODE_SIZE
from foretune.compiler.tvm_compat import as_task_module
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.sampling.programs import EvolutionaryConfig
from foretune.dataset.sampling.programs.counts import CandidateCounts
from foretune.inference import OneShotConfig
from foretune.inference.search.loop import RoundBudget
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.workers.messages import RoundRequest
from foretune.inference.workers.searchers import start_searchers
from support.checkpoints import HARDWARE, TARGET, TASK, random_checkpoint
from support.fake_executor import FakeExecutor
from support.tuning import tuned
from tvm import te

STRATEGIES = {
    "draft": DraftingConfig(population=64, generations=1, keep=8, refine_population=16),
    "evolutionary": EvolutionaryConfig(population_size=8, generations=1),
    "annealing": {"name": "annealing", "chains": 4, "steps": 2},
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


def searcher_of(checkpoint, strategy, **settings):
    config = OneShotConfig(strategy, top_k=6, rounds=3, processes=0, **settings)
    (found,) = start_searchers(config, TARGET, checkpoint, HARDWARE)
    return found


def asked(searcher, request):
    searcher.ask(request)
    reply = searcher.reply()
    assert not reply.error
    return reply


def consistent(counts):
    return counts.tried == counts.proposed + sum(counts.rejected.values())


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_round_tells_what_became_of_its_candidates(checkpoint, name):
    searcher = searcher_of(checkpoint, STRATEGIES[name])
    total, proposed, learned, task = CandidateCounts(), 0, {}, TASK
    for number in range(3):
        budget = RoundBudget(2, quick=number == 0)
        starts = ("no trace", *learned) if number == 1 else ()
        reply = asked(searcher, RoundRequest(TASK.workload_hash, budget, learned, starts, task=task))
        learned, task = {proposal.trace: 1e-3 for proposal in reply.proposals[:1]}, None
        proposed += len(reply.proposals)
        total += reply.counts
        assert consistent(total)
        assert total.proposed == proposed
    assert total.rejected["trace does not apply"] == 1  # "no trace"
    assert (total.drafted > total.tried) == (name == "draft")


def test_programs_above_the_limit_are_rejected_for_their_code_size(checkpoint):
    searcher = searcher_of(checkpoint, STRATEGIES["evolutionary"], max_code=60)
    counts = asked(searcher, RoundRequest(TASK.workload_hash, RoundBudget(2), task=TASK)).counts
    assert consistent(counts)
    assert counts.rejected[CODE_SIZE] > 0


def test_a_task_without_decisions_counts_its_one_schedule(checkpoint):
    a = te.placeholder((64, 128), name="a")
    mod = as_task_module(te.create_prim_func([a, te.compute((64, 128), lambda i, j: a[i, j] * 2)]))
    doubled = replace(TASK, name="doubled", mod=mod)
    searcher = searcher_of(checkpoint, STRATEGIES["evolutionary"])
    reply = asked(searcher, RoundRequest(doubled.workload_hash, RoundBudget(2), task=doubled))
    assert reply.counts == CandidateCounts(tried=1, proposed=1)
    later = RoundRequest(doubled.workload_hash, RoundBudget(2), {reply.proposals[0].trace: 1e-3})
    assert asked(searcher, later).counts == CandidateCounts()


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_result_of_a_task_adds_up(checkpoint, tmp_path, name):
    kinds = itertools.cycle([None, FailureKind.BUILD_ERROR, FailureKind.RUN_TIMEOUT, None])

    def measure(job):
        kind = next(kinds)
        return MeasureOutcome((1e-3,)) if kind is None else MeasureOutcome(failure=kind)

    executor = FakeExecutor(measure, measure)
    result, _ = tuned(checkpoint, executor, tmp_path, STRATEGIES[name], top_k=8, rounds=2)
    assert result.candidates_tried == result.candidates_proposed + sum(result.candidates_rejected.values())
    assert 4 <= result.candidates_measured <= result.candidates_proposed
    assert result.candidates_failed == sum(result.failures.values()) > 0
    assert set(result.failures) == {"build_error", "run_timeout"}
