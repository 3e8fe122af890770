"""The plug-in and the One-Shot search on real TVM, with a small random checkpoint."""

import json
import logging
import math
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.operators import BatchNorm, to_task
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.targets import traits
from foretune.compiler.tvm_compat import (
    NoDesignSpaceError,
    as_task_module,
    design_spaces,
    make_tune_context,
    parse_target,
    trace_as_json,
)
from foretune.dataset.features import assembly
from foretune.dataset.features.assembly import FeatureAssembler
from foretune.dataset.measure import MeasureConfig, WorkerPool
from foretune.dataset.sampling.programs import EvolutionaryConfig
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.search import cost_model
from foretune.inference.search.checkpoint_fit import CheckpointFitError
from foretune.inference.search.config import OneShotConfigError
from foretune.inference.search.cost_model import load_cost_model
from foretune.inference.search.scoring import NEUTRAL_SCORE
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.models.checkpoints.checkpoint import CheckpointExistsError, CheckpointNotFoundError
from support.checkpoints import HARDWARE, TARGET, TASK, candidates_of, random_checkpoint
from support.tuning import tuned
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.testing.dummy_object import DummyBuilder, DummyRunner
from tvm.s_tir.schedule import Schedule


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


@pytest.fixture(scope="module")
def model(checkpoint):
    return PretrainedCostModel.load(checkpoint, HARDWARE)


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(TARGET, MeasureConfig(repeats=2, groups=1), workers=1) as pool:
        yield pool


def test_scores_are_one_finite_number_a_candidate(model):
    context, candidates = candidates_of(TASK)
    scores = model.predict(context, candidates)
    assert scores.shape == (6,)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
    assert model._inst.predict(context, []).shape == (0,)  # MetaSchedule itself never asks for none


def test_serving_computes_what_training_computes(model):
    """One assembly: a candidate's score does not depend on who else is in the batch."""
    context, candidates = candidates_of(TASK)
    together = model.predict(context, candidates)
    alone = [model.predict(context, [candidate])[0] for candidate in candidates]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


def drawn(mod, target=TARGET, count=4):
    """Programs of a module as stock's replay draws them, with their context."""
    context = make_tune_context(mod, target, seed=0, strategy="replay-trace")
    context.pre_tuning(count, count, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    return context, list(context.generate_measure_candidates())


@pytest.mark.parametrize("order", [1, -1])
def test_the_score_of_a_program_is_the_same_from_every_object_and_in_every_order(checkpoint, order):
    """BatchNorm has buffers of one name, whose features TVM orders by their addresses."""
    context, programs = drawn(to_task(BatchNorm.examples()[0]).mod, count=8)
    expected = PretrainedCostModel.load(checkpoint, HARDWARE).predict(context, programs)
    again = PretrainedCostModel.load(checkpoint, HARDWARE).predict(context, programs[::order])[::order]
    np.testing.assert_allclose(again, expected, rtol=1e-5)


def test_two_traces_of_one_program_keep_their_own_scores(checkpoint):
    context, _ = drawn(TASK.mod, count=1)

    def program(decision):
        schedule = Schedule(TASK.mod)
        block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
        value = schedule.sample_categorical([1, 64], [0.5, 0.5], decision=decision)
        schedule.annotate(block, "note", value)
        schedule.unannotate(block, "note")
        return ms.MeasureCandidate(schedule, ms.arg_info.ArgInfo.from_entry_func(schedule.mod))

    programs = [program(0), program(1)]
    forth = PretrainedCostModel.load(checkpoint, HARDWARE).predict(context, programs)
    back = PretrainedCostModel.load(checkpoint, HARDWARE).predict(context, programs[::-1])
    np.testing.assert_allclose(back[::-1], forth, rtol=1e-5)
    assert abs(forth[0] - forth[1]) > 1e-6


def test_scores_belong_to_the_target(monkeypatch):
    """The same programs on AVX2 after AVX-512, each with the vectors of its target."""

    def device(name, target):
        return replace(HARDWARE, vector_bits=traits(target).vector_bits)

    monkeypatch.setattr(cost_model, "find_hardware", device)
    model = PretrainedCostModel.load("cpu")
    _, programs = drawn(TASK.mod)
    found = []
    for level, bits in ((4, 512), (3, 256)):
        target = parse_target({"kind": "llvm", "mcpu": f"x86-64-v{level}", "num-cores": 2})
        context = make_tune_context(TASK.mod, target, seed=0)
        found.append(model.predict(context, programs))
        alone = PretrainedCostModel.load("cpu", replace(HARDWARE, vector_bits=bits))
        np.testing.assert_allclose(found[-1], alone.predict(context, programs), rtol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-6


def elementwise(shape):
    a = te.placeholder(shape, name="a")
    return as_task_module(te.create_prim_func([a, te.compute(shape, lambda *i: a(*i) * 2.0, name="b")]))


def row_sums(rows, columns):
    a, k = te.placeholder((rows, columns), name="a"), te.reduce_axis((0, columns), name="k")
    return as_task_module(te.create_prim_func([a, te.compute((rows,), lambda i: te.sum(a[i, k], k))]))


@pytest.mark.parametrize("counted", [False, True])
def test_every_program_of_stock_has_a_score(counted, tmp_path):
    model = PretrainedCostModel.load(random_checkpoint(tmp_path / "random", counted), HARDWARE)
    for mod in (elementwise((0, 4)), row_sums(8, 0)):
        assert set(model.predict(*drawn(mod))) == {NEUTRAL_SCORE}
    for mod in (elementwise(()), row_sums(1, 64)):
        scores = model.predict(*drawn(mod))
        assert np.isfinite(scores).all() and NEUTRAL_SCORE not in scores


def test_a_program_that_cannot_be_read_is_neutral_and_reported_once(checkpoint, monkeypatch, caplog):
    model = PretrainedCostModel.load(checkpoint, HARDWARE)
    context, programs = drawn(TASK.mod)
    expected = PretrainedCostModel.load(checkpoint, HARDWARE).predict(context, programs)
    readable = FeatureAssembler.rows

    def rows(self, context, candidates):
        if any(one.same_as(bad) for one in candidates for bad in programs[1:3]):
            raise IndexError("no such loop")
        return readable(self, context, candidates)

    monkeypatch.setattr(FeatureAssembler, "rows", rows)
    scores = model.predict(context, programs)
    np.testing.assert_allclose(scores[[0, 3]], expected[[0, 3]], rtol=1e-5)
    assert scores[[1, 2]].tolist() == [NEUTRAL_SCORE] * 2
    assert [line.getMessage() for line in caplog.records] == [
        "task task: programs have no features, so that their score is 0.5 (IndexError: no such loop)"
    ]


def test_a_model_is_saved_and_loaded_in_place(checkpoint, tmp_path):
    other = random_checkpoint(tmp_path / "other", seed=1)
    model = PretrainedCostModel.load(checkpoint, HARDWARE)
    context, programs = drawn(TASK.mod)
    before, expected = model.predict(context, programs), PretrainedCostModel.load(other, HARDWARE)
    assert model.load(str(other)) is None
    assert model.checkpoint.path == other and model.hardware == HARDWARE
    after = model.predict(context, programs)
    np.testing.assert_allclose(after, expected.predict(context, programs), rtol=1e-5)
    assert np.abs(after - before).max() > 1e-6
    ms.cost_model.CostModel.load(model, str(checkpoint))  # as MetaSchedule calls it
    model.save(str(tmp_path / "copy"))
    copied = PretrainedCostModel.load(tmp_path / "copy", HARDWARE)
    np.testing.assert_allclose(copied.predict(context, programs), before, rtol=1e-5)
    with pytest.raises(CheckpointExistsError, match="copy exists: remove it or choose another"):
        model._inst.save(tmp_path / "copy")
    with pytest.raises(CheckpointNotFoundError, match="no-such-checkpoint"):
        model._inst.load("no-such-checkpoint")


def test_a_checkpoint_of_another_kind_of_device_is_refused(checkpoint):
    _, programs = drawn(TASK.mod)
    cuda = make_tune_context(TASK.mod, parse_target("nvidia/nvidia-a100"), seed=0)
    with pytest.raises(CheckpointFitError, match="trained on records of CPUs alone, and target=cuda"):
        PretrainedCostModel.load(checkpoint, HARDWARE)._inst.predict(cuda, programs)


def test_programs_are_counted_for_models_that_read_counts(model, tmp_path, monkeypatch):
    counting = PretrainedCostModel.load(random_checkpoint(tmp_path / "counting", counted=True), HARDWARE)
    context, candidates = candidates_of(TASK)
    scores = counting.predict(context, candidates)
    counted = FeatureAssembler(HARDWARE, counted=True).assemble(context, candidates)
    predictor = counting.checkpoint.predictor
    assert predictor.normaliser.reads_counts and not model.checkpoint.predictor.normaliser.reads_counts
    np.testing.assert_allclose(scores, predictor.predict(counted.batch()), rtol=1e-5)
    other = replace(counted, counts=counted.counts + np.arange(6, dtype=np.float32)[:, None])
    assert np.abs(predictor.predict(other.batch()) - scores).max() > 1e-5

    def uncounted(*_):
        raise AssertionError("the model reads no counts")

    monkeypatch.setattr(assembly, "count_program", uncounted)
    model._inst._scores.clear()
    assert np.isfinite(model.predict(context, candidates)).all()


def test_a_trace_survives_text_and_replay():
    context, (candidate, *_) = candidates_of(TASK, 1)
    text = trace_to_json(candidate.sch.trace)
    again = replay(context, text)
    assert again is not None
    assert trace_to_json(again.sch.trace) == text
    assert again.sch.mod.script() == candidate.sch.mod.script()


def test_traces_are_written_as_tvm_writes_them():
    """TVM's own conversion is the reference, for what search makes and for what an instruction may hold."""
    _, candidates = candidates_of(TASK, 4)
    schedule = Schedule(TASK.mod)
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
    schedule.transform_layout(block, ("write", 0), lambda i, j: (j, i))
    schedule.annotate(block, "anything", {"a": [1, 2.5, "x"], "b": 3})
    for trace in [schedule.trace, *(candidate.sch.trace for candidate in candidates)]:
        expected = json.dumps(trace.as_json(), default=lambda immediate: immediate.value)
        assert json.dumps(trace_as_json(trace)) == expected


def test_a_trace_of_another_task_does_not_replay():
    _, (candidate, *_) = candidates_of(TASK, 1)
    other = te.placeholder((4,), name="a")
    task = as_task_module(te.create_prim_func([other, te.compute((4,), lambda i: other[i] + 1)]))
    context = make_tune_context(task, TARGET, seed=0)
    assert replay(context, trace_to_json(candidate.sch.trace)) is None


def test_stock_tune_tir_takes_the_model(model, tmp_path, monkeypatch):
    # MetaSchedule cannot name the handlers that other tests of this process have given its logger.
    monkeypatch.setattr(logging.getLogger("tvm.s_tir.meta_schedule"), "handlers", [])
    before = model.candidates_scored
    database = ms.tune_tir(
        TASK.mod,
        TARGET,
        str(tmp_path),
        max_trials_global=4,
        num_trials_per_iter=4,
        cost_model=model,
        strategy=ms.search_strategy.EvolutionarySearch(population_size=8, init_min_unmeasured=4),
        builder=DummyBuilder(),  # tests/test_examples.py has those of MetaSchedule
        runner=DummyRunner(),
        measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
        seed=1,
    )
    assert model.candidates_scored > before
    assert database.query_tuning_record(TASK.mod, TARGET, "main") is not None


EVOLUTION = EvolutionaryConfig(population_size=16, generations=1)
DRAFTING = DraftingConfig(population=64, generations=1, keep=16)


@pytest.mark.parametrize(("strategy", "rounds"), [(EVOLUTION, 1), (EVOLUTION, 2), (DRAFTING, 2)])
def test_each_round_measures_its_best_in_order_of_prediction(checkpoint, pool, tmp_path, strategy, rounds):
    result, database = tuned(checkpoint, pool, tmp_path, strategy, rounds=rounds, top_k=6)
    scores = result.predicted_scores
    assert len(scores) == 6
    of_a_round = 6 // rounds
    for start in range(0, 6, of_a_round):
        batch = scores[start : start + of_a_round]
        assert batch == sorted(batch, reverse=True)
    ran = [latency_s for latency_s in result.measured_latencies_s if math.isfinite(latency_s)]
    assert len(database.latencies_s(TASK)) == len(ran)
    # Drafts of a later round may be programs of an earlier one, which are not scored again.
    assert result.candidates_scored >= (16 * rounds if strategy is EVOLUTION else len(scores))
    assert result.tuned_latency_s == min(ran)


def test_a_task_without_decisions_has_no_design_space():
    a = te.placeholder((1,), name="a")
    mod = as_task_module(te.create_prim_func([a, te.compute((1,), lambda i: a[i])]))
    context = make_tune_context(mod, TARGET, seed=0)
    with pytest.raises(NoDesignSpaceError, match="task=copy"):
        design_spaces(context, "copy")


@pytest.mark.parametrize(
    "field, value",
    [("top_k", 0), ("extra_rounds", -1), ("random_share", 1.5), ("rounds", OneShotConfig().top_k + 1)],
)
def test_search_settings_that_cannot_be_are_named(field, value):
    with pytest.raises(OneShotConfigError, match=rf"search\.{field}={value}"):
        OneShotConfig(**{field: value})


def test_an_unknown_checkpoint_is_an_error():
    with pytest.raises(CheckpointNotFoundError, match="no-such-checkpoint"):
        PretrainedCostModel.load("no-such-checkpoint", HARDWARE)


# -- without a checkpoint


def test_without_a_checkpoint_every_program_scores_the_same():
    model = load_cost_model(None, HARDWARE)
    context, candidates = candidates_of(TASK)
    scores = model.predict(context, candidates)
    assert scores.tolist() == [1.0] * 6 and scores.dtype == np.float64
    assert model._inst.predict(context, []).shape == (0,)
    assert model.hardware == HARDWARE and model.candidates_scored == 0 and model.clock.seconds == {}


@pytest.mark.parametrize("surrogate", [False, True])
def test_a_search_without_a_checkpoint_goes_by_its_measurements(pool, tmp_path, surrogate):
    result, database = tuned(None, pool, tmp_path, EVOLUTION, rounds=2, top_k=8, surrogate=surrogate)
    ran = [latency_s for latency_s in result.measured_latencies_s if math.isfinite(latency_s)]
    assert len(result.measured_latencies_s) == 8
    assert len(database.latencies_s(TASK)) == len(ran)
    assert set(result.predicted_scores) == {1.0}
    assert result.tuned_latency_s == min(ran)


def test_stock_tune_tir_takes_the_model_without_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(logging.getLogger("tvm.s_tir.meta_schedule"), "handlers", [])
    database = ms.tune_tir(
        TASK.mod,
        TARGET,
        str(tmp_path),
        max_trials_global=2,
        num_trials_per_iter=2,
        cost_model=load_cost_model(None, HARDWARE),
        strategy=ms.search_strategy.EvolutionarySearch(population_size=8, init_min_unmeasured=2),
        builder=DummyBuilder(),
        runner=DummyRunner(),
        measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel()],
        seed=1,
    )
    assert database.query_tuning_record(TASK.mod, TARGET, "main") is not None
