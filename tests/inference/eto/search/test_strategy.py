"""Reuse as a search strategy: sessions with a parent, ranked by a model or measured step by step."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.structure.parallelism import parallel_iterations
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import probe_cpu
from foretune.inference.eto.search.config import ReuseConfig
from foretune.inference.eto.search.programs import nest_of
from foretune.inference.eto.search.ranking import visited
from foretune.inference.eto.search.search import ReuseTarget, reuse_search
from foretune.inference.eto.search.strategy import NO_REUSE
from foretune.inference.reuse.parent import ReuseParent
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.strategies.draft.model import DraftModel
from support.reuse import CHILD, CPU, PARENT, SM_80, parent_trace, spaces_of
from support.reuse_search import driven, random_parent
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

BUDGET = RoundBudget(8)
SMALL, LARGE = (to_task(Dense(rows=32, in_features=64, out_features=n)) for n in (64, 128))


@derived_object
class Shorter(ms.cost_model.PyCostModel):
    """Scores programs by the length of their text."""

    def predict(self, context, candidates):
        return np.array([1e3 / len(str(candidate.sch.mod)) for candidate in candidates])

    def update(self, context, candidates, results):
        pass


def session(rank="model", target=CPU, task=LARGE, resources=None, backend="evolutionary", **settings):
    strategy = ReuseConfig(rank=rank, backend=backend)
    config = OneShotConfig(strategy=strategy, rounds=1, top_k=6, max_code=None, **settings)
    return SearchSession(
        task, target, SessionResources(Shorter(), config, None, of_strategy=resources, threads=1)
    )


@pytest.fixture(scope="module")
def parent():
    return random_parent(SMALL, "llvm")


def algorithm_1(parent, cost=lambda row: 1.0):
    found = reuse_search(LARGE, spaces_of(LARGE, "llvm"), parent, ReuseTarget(None))
    return found, driven(found.search, cost)[0]


def test_programs_for_one_core_are_visited_if_asked_for(parent):
    visits, cores = {}, {}
    for one_core in (False, True):
        found = reuse_search(LARGE, spaces_of(LARGE, "llvm"), parent, ReuseTarget(None, one_core=one_core))
        visits[one_core] = visited(found.search, lambda rows: [1.0] * len(rows))
        cores[one_core] = parallel_iterations(nest_of(found.space.sketch, sorted(visits[one_core]))).min()
    assert cores[True] == 1 < cores[False]
    assert len(visits[True]) > len(visits[False])


def test_the_draft_model_chooses_among_the_candidates_of_the_search(parent):
    model = DraftModel.load("cpu-draft", probe_cpu(2))
    found = session(resources=model, backend="draft", replay_factor=1)
    proposed = found.propose(BUDGET, parents=[parent])
    assert len(proposed) == len({candidate.trace for candidate in proposed}) == 6
    assert found.counts.proposed == 6
    assert found.counts.drafted >= 6  # those that the search visited
    spaces = [s for s in spaces_of(LARGE, "llvm") if s.sketch.values_in(proposed[0].trace)]
    assert spaces  # the sketch of the parent's program
    again = found.propose(BUDGET, parents=[parent])
    assert not {c.trace for c in again} & {c.trace for c in proposed}


@pytest.mark.parametrize("target", [CPU, SM_80])
def test_without_a_draft_model_the_cost_model_chooses(target):
    name = "llvm" if target is CPU else "cuda"
    found = session(target=target, replay_factor=1)
    proposed = found.propose(BUDGET, parents=[random_parent(SMALL, name)])
    assert len(proposed) == 6
    scores = [candidate.score for candidate in proposed]
    assert scores == sorted(scores, reverse=True)


EVERY = RoundBudget(600)


def test_the_paper_measures_step_by_step_and_goes_on_from_the_fastest(parent):
    found = session("paper", replay_factor=100)
    _, steps = algorithm_1(parent)
    first = found.propose(EVERY, parents=[parent])
    assert 0 < len(first) <= len(steps[0])
    measured = 0
    proposed = first
    while proposed:
        measured += len(proposed)
        found.learn({c.trace: 1e-3 * (1 + number) for number, c in enumerate(proposed)})
        proposed = found.propose(EVERY, parents=[parent])
    assert measured == found.counts.proposed
    assert found.counts.tried == measured + sum(found.counts.rejected.values())


def test_a_step_that_fails_ends_its_number_of_blocks(parent):
    found = session("paper", replay_factor=100)
    first = found.propose(EVERY, parents=[parent])
    found.learn(dict.fromkeys((c.trace for c in first), math.inf))
    # The adapted program itself is what is left to search from.
    assert len(found.propose(EVERY, parents=[parent])) <= 1


def test_a_step_that_takes_several_rounds_is_measured_before_the_next_one(parent):
    found = session("paper", replay_factor=100)
    _, steps = algorithm_1(parent)
    assert len(steps[0]) > 3
    rounds = [len(found.propose(RoundBudget(3, quick), parents=[parent])) for quick in (False, True)]
    assert rounds[0] == 3 >= rounds[1] > 0
    assert found.counts.drafted == len(steps[0])  # no later step was looked at


def test_a_start_takes_the_place_of_a_candidate_of_the_search(parent):
    found = session("paper", replay_factor=100)
    start = random_parent(LARGE, "llvm", seed=5).trace
    assert [c.is_start for c in found.propose(RoundBudget(1), [start], [parent])] == [True]
    assert [c.is_start for c in found.propose(RoundBudget(1), parents=[parent])] == [False]


def test_a_search_that_was_interrupted_goes_on_with_its_next_step(parent):
    def seconds(proposed):
        return {c.trace: 1e-3 * (1 + number) for number, c in enumerate(proposed)}

    first, again = session("paper", replay_factor=100), session("paper", replay_factor=100)
    known = seconds(first.propose(EVERY, parents=[parent]))
    first.learn(known)
    again.learn(known)
    following = first.propose(EVERY, parents=[parent])
    assert following
    assert [c.trace for c in again.propose(EVERY, parents=[parent])] == [c.trace for c in following]


def test_after_the_last_step_the_backend_searches(parent):
    found = session("paper", replay_factor=100)
    while proposed := found.propose(EVERY, parents=[parent]):
        found.learn(dict.fromkeys((c.trace for c in proposed), math.inf))
    assert found.propose(EVERY)


def test_a_task_that_no_program_of_the_parent_fits_is_left_to_the_backend():
    # Every program of the parent's sketch keeps two numbers at least in shared memory.
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 4, "thread_warp_size": 32}
    target = parse_target({"kind": "cuda", "arch": "sm_80", **limits})
    found = session("paper", target=target, task=CHILD)
    assert found.propose(EVERY, parents=[ReuseParent(PARENT, parent_trace())]) == []
    assert found.counts.tried == sum(found.counts.rejected.values()) > 0


def test_the_backend_goes_on_where_the_search_has_too_few_candidates(parent):
    found = session(replay_factor=100)  # 600 a round
    space, steps = algorithm_1(parent)
    proposed = found.propose(BUDGET, parents=[parent])
    own = {row for step in steps for row in step}
    values = [space.space.sketch.values_in(candidate.trace) for candidate in proposed]
    others = [row for row in values if row is None or tuple(row) not in own]
    assert 0 < len(others) < len(proposed)
    assert len({candidate.trace for candidate in proposed}) == len(proposed)


def test_without_parents_the_backend_searches():
    assert session().propose(BUDGET)


def test_a_program_that_cannot_be_reused_is_counted_and_the_next_one_is_taken(parent):
    found = session()
    assert found.propose(BUDGET, parents=[ReuseParent(PARENT, parent_trace()), parent])
    assert found.counts.rejected[NO_REUSE] == 1
    alone = session()
    assert alone.propose(BUDGET, parents=[ReuseParent(PARENT, parent_trace())])  # by the backend
    assert alone.counts.rejected[NO_REUSE] == 1


def test_starts_come_before_the_candidates_of_the_search(parent):
    found = session()
    start = random_parent(LARGE, "llvm", seed=5).trace
    proposed = found.propose(BUDGET, [start], [parent])
    assert [c.is_start for c in proposed[:2]] == [True, False]
    assert proposed[0].trace == start
    assert start not in {c.trace for c in proposed[1:]}


def test_settings_that_cannot_be_are_named():
    with pytest.raises(OneShotConfigError, match=r"search\.strategy\.rank=best: use one of model, paper"):
        ReuseConfig(rank="best")
    with pytest.raises(OneShotConfigError, match=r"search\.strategy\.backend=reuse"):
        ReuseConfig(backend="reuse")


def test_settings_survive_their_way_to_a_search_process():
    config = OneShotConfig(strategy="reuse")
    assert OneShotConfig.from_json(asdict(config)) == config
