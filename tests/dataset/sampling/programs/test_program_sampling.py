"""Tests of program samplers on real design spaces: proposals, duplicates and learning."""

import logging
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tvm
from foretune.compiler.counts.code_size import code_size
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import RejectedError, candidate_trace_json, instantiate, replay
from foretune.compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR
from foretune.compiler.tvm_compat import counting_logger, mutate, parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.sampling.programs import (
    AnnealingConfig,
    AnnealingSampler,
    DatabaseSampler,
    EvolutionaryConfig,
    EvolutionarySampler,
    ProgramSamplingConfig,
    RandomSampler,
    SamplerSetting,
    SamplingError,
    make_program_sampler,
)
from foretune.dataset.sampling.programs.annealing import acceptance_probability
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
CUDA = parse_target("nvidia/nvidia-a100")
TASK = to_task(Dense(rows=16, in_features=64, out_features=64, epilogue="bias"))


@derived_object
class UnrollLover(ms.cost_model.PyCostModel):
    """Cost model that scores a program by its unroll step and counts its updates."""

    def __init__(self):
        super().__init__()
        self.lessons = []

    def predict(self, context, candidates):
        return np.array([unroll_of(candidate.sch.trace) for candidate in candidates]) / 512

    def update(self, context, candidates, results):
        self.lessons.append([None if r.run_secs is None else float(r.run_secs[0]) for r in results])


def unroll_of(trace):
    """Value of the trace's unroll decision."""
    (value,) = (
        float(instruction.attrs[0][int(decision)])
        for instruction, decision in trace.decisions.items()
        if instruction.kind.name == "SampleCategorical"
    )
    return value


def sampler_of(name, scorer=None, per_round=8, seed=3, **changes):
    common = {"per_round": per_round, "seed": seed}
    if "random_share" in changes:
        common["random_share"] = changes.pop("random_share")
    if name == "random":
        return RandomSampler(SamplerSetting(TASK, TARGET, **common))
    common |= {"scorer": scorer or UnrollLover(), "threads": 1}
    if name == "annealing":
        config = AnnealingConfig(**{"chains": 6, "steps": 4, **changes})
        return AnnealingSampler(SamplerSetting(TASK, TARGET, **common), config=config)
    config = EvolutionaryConfig(**{"population_size": 12, "generations": 1, **changes})
    return EvolutionarySampler(SamplerSetting(TASK, TARGET, **common), config=config)


@pytest.mark.parametrize("name", ["evolutionary", "annealing", "random"])
def test_proposals_are_different_programs_that_replay_from_their_traces(name):
    sampler = sampler_of(name)
    first = sampler.propose()
    second = sampler.propose()
    traces = [trace for trace, _ in first + second]
    assert len(first) >= 4
    assert len(set(traces)) == len(traces)
    assert len(first) <= 8
    for trace, candidate in first[:2]:
        again = replay(sampler.context, trace)
        tvm.ir.assert_structural_equal(again.sch.mod, candidate.sch.mod)


@pytest.mark.parametrize("name", ["evolutionary", "annealing", "random"])
def test_the_seed_alone_decides(name):
    assert [t for t, _ in sampler_of(name).propose()] == [t for t, _ in sampler_of(name).propose()]
    assert [t for t, _ in sampler_of(name, seed=4).propose()] != [t for t, _ in sampler_of(name).propose()]


@pytest.mark.parametrize("name", ["evolutionary", "annealing", "random"])
def test_what_is_known_is_not_proposed(name):
    known = [trace for trace, _ in sampler_of(name).propose()]
    sampler = sampler_of(name)
    sampler.mark_measured(known)
    assert not {trace for trace, _ in sampler.propose()} & set(known)


@pytest.mark.parametrize("name", ["evolutionary", "annealing"])
def test_exploration_teaches_its_scorer_latencies_and_failures(name):
    scorer = UnrollLover()
    sampler = sampler_of(name, scorer)
    proposed = sampler.propose()[:2]
    sampler.learn(proposed, [MeasureOutcome((2.0, 1.0)), MeasureOutcome(message="no")])
    assert scorer.lessons == [[2.0, None]]
    sampler.learn([], [])
    assert len(scorer.lessons) == 1


def test_annealing_prefers_what_the_scorer_likes():
    unrolls = {}
    for share in (0.0, 1.0):
        sampler = sampler_of("annealing", random_share=share, per_round=6)
        proposed = [p for _ in range(3) for p in sampler.propose()]
        unrolls[share] = np.mean([unroll_of(candidate.sch.trace) for _, candidate in proposed])
    assert unrolls[0.0] > 1.5 * unrolls[1.0]


def test_acceptance_is_that_of_metropolis():
    gain = np.array([0.5, 0.0, -0.5, -1.0])
    np.testing.assert_allclose(acceptance_probability(gain, 0.5), [1.0, 1.0, np.exp(-1), np.exp(-2)])
    np.testing.assert_array_equal(acceptance_probability(gain, 0.0), [1.0, 1.0, 0.0, 0.0])


def test_a_mutation_depends_on_its_seed_alone():
    sampler = sampler_of("random")
    trace = sampler.propose()[0][1].sch.trace
    mutator = next(m for m in sampler.context.space_generator.mutator_probs if "TileSize" in str(m))
    texts = [str(mutate(mutator, trace, seed)) for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def test_the_database_sampler_replays_in_order_and_counts_what_does_not():
    recorded = [trace for trace, _ in sampler_of("random", per_round=3).propose()]
    foreign = recorded[0].replace('"matmul"', '"no_such_block"')
    traces = [recorded[0], foreign, recorded[1], recorded[0], recorded[2]]
    sampler = DatabaseSampler(SamplerSetting(TASK, TARGET, per_round=2, seed=0), traces=traces)
    assert [trace for trace, _ in sampler.propose()] == recorded[:2]
    assert [trace for trace, _ in sampler.propose()] == recorded[2:]
    assert sampler.propose() == []
    assert sampler.rejected == {"trace does not replay": 1}


def test_random_programs_for_a_gpu_are_within_its_limits():
    task = to_task(Dense(rows=512, in_features=512, out_features=512))
    sampler = RandomSampler(SamplerSetting(task, CUDA, per_round=12, seed=0))
    assert len(sampler.propose()) == 12
    assert sampler.rejected.total() <= 1


def test_a_postprocessor_that_fails_refuses():
    sampler = sampler_of("random")
    trace = sampler.propose()[0][1].sch.trace

    class Refuses:
        def apply(self, schedule):
            raise ValueError("no")

        def __str__(self):
            return "s_tir.meta_schedule.VerifyGPUCode(0x1)"

    class Context:
        mod = sampler.context.mod
        space_generator = type("Space", (), {"postprocs": [Refuses()]})

    with pytest.raises(RejectedError, match=r"^VerifyGPUCode$"):
        instantiate(Context, trace, seed=1)


def test_refusals_of_the_evolutionary_search_are_read_from_its_summaries():
    rejected = Counter()
    counting_logger(rejected).info(
        "Sample-Init-Population summary:\n"
        "Trace replay failures: 3 failure(s)\n"
        "Postproc #0 [s_tir.meta_schedule.DisallowDynamicLoop]: 0 failure(s)\n"
        "Postproc #1 [s_tir.meta_schedule.VerifyGPUCode(0x5581)]: 5 failure(s)"
    )
    assert rejected == {"trace does not apply": 3, "VerifyGPUCode": 5}


def test_a_first_population_that_is_drawn_in_several_turns_is_counted_once():
    rejected = Counter()
    logger = counting_logger(rejected)
    turn = "Sample-Init-Population summary:\nPostproc #0 [s_tir.meta_schedule.VerifyGPUCode]: {} failure(s)"
    for failures in (3, 7):  # each turn repeats those before it
        logger.info(turn.format(failures))
    assert rejected == {"VerifyGPUCode": 7}
    logger.info(
        "Evolve iter #0 done. Summary:\nPostproc #0 [s_tir.meta_schedule.VerifyGPUCode]: 2 failure(s)"
    )
    logger.info(turn.format(4))  # of the next round
    assert rejected == {"VerifyGPUCode": 7 + 2 + 4}


@pytest.mark.slow
def test_the_evolutionary_search_counts_what_a_gpu_has_no_room_for(caplog):
    task = to_task(Dense(rows=512, in_features=512, out_features=512))
    with caplog.at_level(logging.INFO):
        sampler = EvolutionarySampler(
            SamplerSetting(
                task,
                parse_target("nvidia/nvidia-a100"),
                scorer=ms.cost_model.RandomModel(),
                per_round=4,
                seed=0,
            ),
            config=EvolutionaryConfig(population_size=24, generations=0),
        )
        assert sampler.propose()
    assert sampler.rejected["VerifyGPUCode"] > 0
    assert caplog.text == ""


@pytest.mark.parametrize("name", ["evolutionary", "annealing", "random"])
def test_samplers_are_made_by_name(name):
    config = ProgramSamplingConfig(sampler=name, scorer="random")
    sampler = make_program_sampler(config, SamplerSetting(TASK, TARGET, per_round=4, seed=0))
    assert sampler.name == name
    assert config.label == ("random" if name == "random" else f"{name}/random")


@pytest.mark.parametrize("name", ["evolutionary", "annealing", "random"])
def test_samplers_draw_no_program_above_the_limit_of_its_code(name):
    limited = ProgramSamplingConfig(sampler=name, scorer="random", max_code=60)
    sampler = make_program_sampler(limited, SamplerSetting(TASK, TARGET, per_round=8, seed=0))
    assert max(code_size(candidate.sch.mod) for _, candidate in sampler.propose()) <= 60
    assert sampler.rejected[PYTHON_POSTPROCESSOR] > 0
    free = make_program_sampler(
        replace(limited, max_code=None), SamplerSetting(TASK, TARGET, per_round=8, seed=0)
    )
    assert max(code_size(candidate.sch.mod) for _, candidate in free.propose()) > 60


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ProgramSamplingConfig(sampler="oracle"), "program_sampling.sampler='oracle'"),
        (lambda: ProgramSamplingConfig(sampler="database"), "program_sampling.database is missing"),
        (
            lambda: ProgramSamplingConfig(max_code=0),
            "program_sampling.max_code=0: must be at least 1, or null",
        ),
        (lambda: AnnealingConfig(steps=0), "steps=0"),
        (lambda: AnnealingConfig(temperature=-1), "temperature=-1"),
        (lambda: ProgramSamplingConfig(random_share=1.5), "program_sampling.random_share=1.5"),
    ],
)
def test_settings_that_cannot_be_are_named(make, message):
    with pytest.raises(SamplingError, match=message):
        make()


def test_the_canonical_trace_of_a_replayed_candidate_is_its_own():
    sampler = sampler_of("random", per_round=3)
    for trace, candidate in sampler.propose():
        assert candidate_trace_json(candidate) == trace
        assert candidate_trace_json(replay(sampler.context, trace)) == trace
