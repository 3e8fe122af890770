"""Evolution of rows of decisions on a GPU, and its scorers."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import replay
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import named_hardware
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.sampling.programs import (
    EvolutionaryConfig,
    ProgramSamplingConfig,
    RowEvolutionSampler,
    SamplerSetting,
    SamplingError,
    make_program_sampler,
    make_scorer,
)
from foretune.inference.search.scoring import CorrectedCostModel
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("nvidia/nvidia-a100")
TASK = to_task(Dense(rows=128, in_features=128, out_features=128, epilogue="bias"))
LOADER = "foretune.inference.plugins.checkpoint_scorer:load"
SMALL = EvolutionaryConfig(population_size=12, generations=1)


def threads_of(candidate):
    """Threads of a block: the product of the third factors of the two spatial tiles."""
    tiles = [list(map(int, d)) for i, d in candidate.sch.trace.decisions.items() if "Perfect" in i.kind.name]
    return np.prod([tile[2] for tile in tiles if len(tile) == 5])


@derived_object
class ThreadLover(ms.cost_model.PyCostModel):
    """Scores a program by its threads, and counts its lessons."""

    def __init__(self):
        super().__init__()
        self.lessons = 0

    def predict(self, context, candidates):
        return np.array([threads_of(candidate) for candidate in candidates], dtype=float)

    def update(self, context, candidates, results):
        self.lessons += len(candidates)


def sampler_of(scorer, seed=0, config=SMALL, per_round=6, **changes):
    setting = SamplerSetting(
        TASK, TARGET, scorer=scorer, per_round=per_round, seed=seed, threads=1, **changes
    )
    return RowEvolutionSampler(setting, config)


def proposed_in(sampler, rounds):
    found = []
    for _ in range(rounds):
        found.append(sampler.propose())
        sampler.learn(found[-1], [MeasureOutcome((1.0 / threads_of(c),)) for _, c in found[-1]])
    return found


def test_rounds_are_valid_different_programs_and_the_counts_add_up():
    sampler = sampler_of(ThreadLover())
    found = proposed_in(sampler, 3)
    traces = [trace for each in found for trace, _ in each]
    assert len(traces) == 18 and len(set(traces)) == 18
    counts = sampler.counts
    assert counts.tried == counts.proposed + sum(counts.rejected.values())
    assert sampler.rejected.total() <= 0.2 * counts.tried
    assert sampler.scorer.lessons == 18
    assert replay(sampler.context, traces[0]) is not None


def test_the_seed_alone_decides():
    first, second, other = (proposed_in(sampler_of(ThreadLover(), seed), 2) for seed in (1, 1, 2))
    assert [[t for t, _ in each] for each in first] == [[t for t, _ in each] for each in second]
    assert [t for t, _ in first[0]] != [t for t, _ in other[0]]


def test_evolution_goes_where_the_scorer_leads():
    evolution = EvolutionaryConfig(population_size=16, generations=2)
    by_score = proposed_in(sampler_of(ThreadLover(), config=evolution, random_share=0.0), 3)[-1]
    at_random = proposed_in(sampler_of(ThreadLover(), config=evolution, random_share=1.0), 1)[0]
    threads = [np.mean([threads_of(c) for _, c in each]) for each in (by_score, at_random)]
    assert threads[0] > 1.5 * threads[1]


def test_an_untrained_scorer_is_not_asked():
    sampler = sampler_of(make_scorer("xgboost", warm_up=6)(TASK, None))
    assert len(sampler.propose()) == 6
    assert sampler.counts.tried == 6  # nothing was replayed only to be rated at random


def test_a_checkpoint_guides_the_first_round_and_is_corrected_by_measurements():
    config = ProgramSamplingConfig(scorer="cuda", checkpoint_scorer=LOADER, evolutionary=SMALL)
    assert config.label == "evolutionary/cuda"
    sampler = make_program_sampler(
        config, SamplerSetting(TASK, TARGET, per_round=6, seed=0), hardware=named_hardware("a100")
    )
    assert isinstance(sampler.scorer, CorrectedCostModel)
    first = sampler.propose()
    assert len(first) == 6 and sampler.counts.tried > 6
    candidates = [candidate for _, candidate in first]
    before = sampler.scorer.predict(sampler.context, candidates)
    sampler.learn(first, [MeasureOutcome((1e-3 * (number + 1),)) for number in range(6)])
    after = sampler.scorer.predict(sampler.context, candidates)
    assert not np.allclose(before, after)
    assert after[0] > after[-1]


@pytest.mark.parametrize(
    ("name", "loader", "message"),
    [
        ("cuda", None, "set program_sampling.checkpoint_scorer"),
        ("cuda", "foretune.no_such_module:load", "give package.module:function"),
        ("cuda", "foretune.inference.plugins.checkpoint_scorer", "give package.module:function"),
    ],
)
def test_a_scorer_that_cannot_be_is_named(name, loader, message):
    with pytest.raises(SamplingError, match=message):
        make_scorer(name, 4, loader)


def test_a_bad_checkpoint_is_named_before_anything_is_sampled():
    with pytest.raises(SamplingError, match="scorer='no-such-checkpoint'"):
        make_scorer("no-such-checkpoint", 4, LOADER)


def test_a_checkpoint_needs_a_device():
    with pytest.raises(SamplingError, match="rates programs for a device"):
        make_scorer("cuda", 4, LOADER)(TASK, None)
