"""Counts of candidates: what is tried is proposed or rejected, with every sampler."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import RejectedError, instantiate
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.sampling.programs import (
    AnnealingConfig,
    AnnealingSampler,
    DatabaseSampler,
    EvolutionaryConfig,
    EvolutionarySampler,
    RandomSampler,
    SamplerSetting,
)
from foretune.dataset.sampling.programs import sampler as sampler_module
from foretune.dataset.sampling.programs.counts import DUPLICATE, LOWER_SCORE, CandidateCounts
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
TASK = to_task(Dense(rows=2, in_features=2, out_features=2))
"""A task of so few programs that searches meet them again."""


@derived_object
class Even(ms.cost_model.PyCostModel):
    """Gives every program the same score, and counts the programs that it rates."""

    def __init__(self):
        super().__init__()
        self.rated = 0

    def predict(self, context, candidates):
        self.rated += len(candidates)
        return np.ones(len(candidates))

    def update(self, context, candidates, results):
        pass


def sampler_of(name, scorer=None, per_round=6):
    common = {"per_round": per_round, "seed": 3}
    if name == "random":
        return RandomSampler(SamplerSetting(TASK, TARGET, **common))
    common |= {"scorer": scorer or Even(), "threads": 1}
    if name == "annealing":
        return AnnealingSampler(
            SamplerSetting(TASK, TARGET, **common), config=AnnealingConfig(chains=6, steps=4)
        )
    return EvolutionarySampler(
        SamplerSetting(TASK, TARGET, **common), config=EvolutionaryConfig(population_size=12, generations=2)
    )


def consistent(counts):
    return counts.tried == counts.proposed + sum(counts.rejected.values())


def test_counts_add_up_and_are_subtracted():
    first = CandidateCounts(drafted=9, tried=5, proposed=2, rejected={DUPLICATE: 2, "VerifyGPUCode": 1})
    second = CandidateCounts(tried=3, proposed=4, rejected={DUPLICATE: 1, LOWER_SCORE: -2})
    both = first + second
    assert both == CandidateCounts(9, 8, 6, {DUPLICATE: 3, "VerifyGPUCode": 1, LOWER_SCORE: -2})
    assert both - first == second
    assert (first - first) == CandidateCounts()
    assert first.renamed("VerifyGPUCode", "limits").rejected == {DUPLICATE: 2, "limits": 1}


@pytest.fixture
def instantiated(monkeypatch):
    """Causes of what samplers replayed in Python, "" for valid programs."""
    causes = []

    def remembering(context, trace, seed):
        # A third of the programs is rejected.
        if len(causes) % 3 == 2:
            causes.append("VerifyGPUCode")
            raise RejectedError("VerifyGPUCode")
        candidate = instantiate(context, trace, seed)
        causes.append("")
        return candidate

    monkeypatch.setattr(sampler_module, "instantiate", remembering)
    return causes


@pytest.mark.parametrize("name", ["evolutionary", "annealing", "random"])
def test_what_is_tried_is_proposed_or_rejected_round_by_round(name, instantiated):
    scorer = Even()
    sampler = sampler_of(name, scorer)
    assert sampler.counts == CandidateCounts()
    proposed = 0
    for _ in range(20 if name == "random" else 4):
        found = sampler.propose()
        proposed += len(found)
        counts = sampler.counts
        assert consistent(counts)
        assert counts.proposed == proposed
        assert counts.rejected.get("VerifyGPUCode", 0) == instantiated.count("VerifyGPUCode")
        in_tvm = scorer.rated if name == "evolutionary" else 0
        assert counts.tried == len(instantiated) + in_tvm
        sampler.learn(found, [MeasureOutcome((1e-3,)) for _ in found])
    assert sampler.counts.rejected[DUPLICATE if name == "random" else LOWER_SCORE] > 0


def test_a_replayed_database_counts_its_traces():
    recorded = [trace for trace, _ in sampler_of("random", per_round=2).propose()]
    traces = [recorded[0], recorded[0], recorded[1], "[[],[[9,1]]]"]
    sampler = DatabaseSampler(SamplerSetting(TASK, TARGET, per_round=9, seed=0), traces=traces)
    assert len(sampler.propose()) == 2
    assert sampler.counts == CandidateCounts(
        tried=4, proposed=2, rejected={DUPLICATE: 1, "trace does not replay": 1}
    )
