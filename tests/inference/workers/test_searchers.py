"""Search processes: what they answer, how they stand still, and how they are replaced."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tvm
from foretune.compiler.codegen import objects
from foretune.compiler.codegen.objects import ObjectFiles
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import as_task_module, module_from_json, parse_target
from foretune.dataset.hardware import named_hardware
from foretune.dataset.measure import WorkerPool
from foretune.dataset.measure.worker.process import WorkerLostError
from foretune.dataset.sampling.programs import EvolutionaryConfig, EvolutionarySampler
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.strategies.sampled import QUICK_PROPOSALS
from foretune.inference.surrogate.embedding import EMBEDDING_DIM
from foretune.inference.workers import searchers
from foretune.inference.workers.messages import RoundReply, RoundRequest
from foretune.inference.workers.searchers import (
    InlineSearcher,
    ProcessSearcher,
    alone_on,
    held_back,
    hold_back,
    start_searchers,
)
from support.torchless import without_torch
from tvm import te

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))
CONFIG = OneShotConfig(
    EvolutionaryConfig(population_size=6, generations=1),
    top_k=4,
    rounds=2,
    processes=1,
    replay_factor=1,
)
HARDWARE = replace(named_hardware("a100"), kind="cpu", name="some CPU")


@pytest.fixture(scope="module")
def searcher():
    (found,) = start_searchers(CONFIG, TARGET, "cpu", HARDWARE)
    assert isinstance(found, ProcessSearcher)
    yield found
    found.close()


@pytest.fixture(scope="module")
def inline():
    (found,) = start_searchers(replace(CONFIG, processes=0), TARGET, "cpu", HARDWARE)
    assert isinstance(found, InlineSearcher)
    return found


@pytest.mark.parametrize("cores, most, started", [(1, 5, 1), (4, 2, 2), (4, 0, 1), (32, 99, 8)])
def test_no_more_processes_search_than_there_are_cores_and_tasks(monkeypatch, cores, most, started):
    monkeypatch.setattr(searchers, "available_cores", lambda: cores)
    monkeypatch.setattr(searchers, "ProcessSearcher", lambda spec: spec.role)
    found = start_searchers(replace(CONFIG, processes=None), TARGET, "cpu", HARDWARE, most=most)
    assert found == ["search"] * started


def answer(searcher, request):
    searcher.ask(request)
    if searcher.connection is not None:
        assert searcher.connection.poll(120)
    return searcher.reply()


ROUND, QUICK = RoundBudget(2), RoundBudget(2, quick=True)


def request(task=TASK, learned=None, budget=ROUND, **more):
    return RoundRequest(task.workload_hash, budget, learned or {}, **more)


def opening(task=TASK, learned=None, budget=ROUND, **more):
    return RoundRequest(task.workload_hash, budget, learned or {}, task=task, **more)


def traces(reply):
    return [proposal.trace for proposal in reply.proposals]


def state_of(pid):
    """The letter by which Linux tells the state of a process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def comes_to_stand_still(pid):
    deadline = time.monotonic() + 60
    while state_of(pid) != "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    return state_of(pid) == "T"


def test_both_kinds_answer_alike_round_by_round(searcher, inline):
    replies = []
    for each in (searcher, inline):
        opened = answer(each, opening())
        learned = {trace: 1e-3 * (place + 1) for place, trace in enumerate(traces(opened))}
        learned[traces(opened)[-1]] = math.inf  # a failure
        replies.append((opened, answer(each, request(learned=learned))))
    for opened, again in replies:
        assert len(traces(opened)) == len(traces(again)) == 2
        assert not set(traces(opened)) & set(traces(again))
        assert opened.scored >= 6
        assert {"features", "prediction", "replay and postprocessing"} <= set(opened.stage_s)
        assert all(proposal.embedding.shape == (EMBEDDING_DIM,) for proposal in opened.proposals)
    # One thread and one seed: the same search wherever it runs.
    assert traces(replies[0][0]) == traces(replies[1][0])


def test_a_searcher_that_compiles_proposes_the_best_candidate_and_leaves_its_object_code(
    inline, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (found,) = start_searchers(replace(CONFIG, processes=0), TARGET, "cpu", HARDWARE, compiles=True)
    (best,), all_of_them = answer(found, opening()).proposals, answer(inline, opening()).proposals
    assert best.trace == max(all_of_them, key=lambda one: one.score).trace and len(all_of_them) == 2
    files = ObjectFiles(cached=True)
    monkeypatch.setattr(objects, "_compiled", lambda *_: pytest.fail("it is compiled again"))
    files.prepare(module_from_json(best.module), TARGET)
    assert files._found


def test_a_searcher_drafts_with_the_checkpoint_that_fits():
    drafting = DraftingConfig(population=64, generations=1, keep=8)
    config = OneShotConfig(drafting, top_k=4, rounds=2, replay_factor=1, processes=0)
    (found,) = start_searchers(config, TARGET, "cpu", HARDWARE)
    opened = answer(found, opening())
    assert opened.counts.drafted > 0  # which evolution does not count
    again = answer(found, request(learned=dict.fromkeys(traces(opened), 1e-3)))
    assert len(traces(opened)) == len(traces(again)) == 2
    quick = answer(found, opening(budget=QUICK))
    assert len(traces(quick)) == QUICK_PROPOSALS
    # Only what is proposed was replayed; what was scored before is not scored again.
    assert opened.scored == 2
    assert opened.stage_s["drafting"] > 0 and opened.stage_s["replay and postprocessing"] > 0
    assert quick.scored <= QUICK_PROPOSALS


def test_start_candidates_come_first_and_say_so(searcher, inline):
    start, other = traces(answer(inline, opening()))
    for each in (searcher, inline):
        opened = answer(each, opening(starts=(start, "no trace")))
        assert [proposal.is_start for proposal in opened.proposals] == [True, False, False]
        assert traces(opened)[0] == start
        again = answer(each, request(starts=(start, other)))
        assert start not in traces(again)


STARTS_ALONE = RoundBudget(1, search=False)
SEARCH_STAGES = {"design space", "features", "prediction"}


def test_start_candidates_alone_need_no_search_until_a_later_round(searcher, inline):
    start, _ = traces(answer(inline, opening()))
    for each in (searcher, inline):
        alone = answer(each, opening(budget=STARTS_ALONE, starts=(start, start, "no trace")))
        assert traces(alone) == [start] and alone.proposals[0].is_start
        assert alone.proposals[0].module and alone.proposals[0].record
        assert alone.scored == 0 and not SEARCH_STAGES & set(alone.stage_s)
        assert (alone.counts.tried, alone.counts.proposed) == (3, 1)
        assert alone.counts.rejected == {"duplicate": 1, "trace does not apply": 1}
        later = answer(each, request(learned={start: 1e-3}))
        assert len(traces(later)) == 2 and start not in traces(later)
        assert later.scored >= 6 and set(later.stage_s) >= SEARCH_STAGES
        assert later.counts.proposed == 2


def test_a_task_whose_start_candidates_do_not_replay_is_searched(inline):
    searched = answer(inline, opening(budget=STARTS_ALONE, starts=("no trace",)))
    assert searched.proposals == () and set(searched.stage_s) >= {"design space"}
    # A run without measurements takes the search's candidates instead.
    config = replace(CONFIG, measure=False, rounds=1, top_k=2)
    (unmeasured,) = start_searchers(replace(config, processes=0), TARGET, "cpu", HARDWARE)
    found = answer(unmeasured, opening(budget=STARTS_ALONE, starts=("no trace",)))
    assert found.proposals and not any(one.is_start for one in found.proposals)


def test_start_candidates_are_rated_if_other_tasks_learn_from_them(inline):
    start, _ = traces(answer(inline, opening()))
    reply = answer(inline, opening(budget=STARTS_ALONE, starts=(start,), surrogate_group="dense"))
    (rated,) = reply.proposals
    assert rated.is_start and rated.score > 0 and rated.embedding.shape == (EMBEDDING_DIM,)


def test_a_task_is_reopened_with_what_was_measured(inline):
    opened = answer(inline, opening())
    learned = dict.fromkeys(traces(opened), 1e-3)
    again = answer(inline, opening(learned={**learned, "no trace": 1.0}))
    assert not set(traces(again)) & set(learned)


def test_a_task_without_decisions_is_nothing_to_tune(inline):
    a = te.placeholder((1,), name="a")
    mod = as_task_module(te.create_prim_func([a, te.compute((1,), lambda i: a[i])]))
    nothing = replace(TASK, name="copy", mod=mod)
    assert answer(inline, opening(nothing)) == RoundReply(nothing_to_tune=True)


def test_an_element_wise_task_is_proposed_in_parallel_and_in_vectors_once(inline):
    a = te.placeholder((64, 128), name="a")
    mod = as_task_module(te.create_prim_func([a, te.compute((64, 128), lambda i, j: a[i, j] * 2)]))
    doubled = replace(TASK, name="doubled", mod=mod)
    (only,) = answer(inline, opening(doubled)).proposals
    script = tvm.ir.load_json(only.module).script()
    assert "T.parallel" in script and "T.vectorized" in script
    assert answer(inline, request(doubled, learned={only.trace: 1e-3})).proposals == ()
    # What an earlier run has measured is not proposed again.
    again = answer(inline, opening(doubled, {only.trace: 1e-3}))
    assert again.proposals == ()


def test_a_search_without_a_population_draws_at_random(monkeypatch):
    """As on a GPU whose limits most programs break: evolution proposes nothing, and chance goes on."""
    model = PretrainedCostModel.load("cpu", HARDWARE)
    session = SearchSession(TASK, TARGET, SessionResources(model, CONFIG, HARDWARE, threads=1))
    monkeypatch.setattr(EvolutionarySampler, "propose", lambda self: [])
    first = session.propose(ROUND)
    assert len(first) == QUICK_PROPOSALS
    session.learn({proposal.trace: 1e-3 for proposal in first})
    second = session.propose(ROUND)
    assert second
    assert not {p.trace for p in first} & {p.trace for p in second}
    exhausted = SearchSession(TASK, TARGET, SessionResources(model, CONFIG, HARDWARE, threads=1))
    exhausted.learn({"measured before": 1e-3})
    assert exhausted.propose(ROUND) == []


def test_a_quick_round_proposes_a_few_and_the_search_goes_on():
    (inline,) = start_searchers(replace(CONFIG, processes=0), TARGET, "cpu", HARDWARE)
    opened = answer(inline, opening(budget=QUICK))
    assert len(traces(opened)) == opened.scored == QUICK_PROPOSALS
    again = answer(inline, request(learned=dict.fromkeys(traces(opened), 1e-3)))
    assert len(traces(again)) == 2
    assert not set(traces(again)) & set(traces(opened))


def test_nothing_is_proposed_twice_measured_or_not():
    model = PretrainedCostModel.load("cpu", HARDWARE)
    config = replace(CONFIG, replay_factor=3)
    session = SearchSession(TASK, TARGET, SessionResources(model, config, HARDWARE, threads=1))
    first = session.propose(ROUND)
    assert 2 < len(first) <= 2 * 3  # three for each that is measured
    session.learn({proposal.trace: 1e-3 for proposal in first[-2:]})
    second = session.propose(ROUND)
    assert second and not {p.trace for p in first} & {p.trace for p in second}


def test_an_error_in_this_process_is_an_answer_too(inline):
    assert "unknown" in answer(inline, RoundRequest("unknown", ROUND)).error


def test_an_error_of_the_search_is_an_answer(searcher):
    reply = answer(searcher, RoundRequest("unknown", ROUND))
    assert "unknown" in reply.error
    assert reply.reason.startswith("the search failed: ")


def test_searchers_stand_still_for_a_timing(searcher):
    with held_back([searcher]):
        assert comes_to_stand_still(searcher.pid)
    assert state_of(searcher.pid) != "T"
    around = hold_back(replace(CONFIG, overlap="none"), None, [searcher])
    with around(), contextlib.suppress(ZeroDivisionError):
        raise ZeroDivisionError  # whatever happens inside, it goes on
    assert state_of(searcher.pid) != "T"


def test_a_searcher_goes_on_after_the_last_of_several_pauses(searcher):
    with held_back([searcher]):
        with held_back([searcher]):
            assert comes_to_stand_still(searcher.pid)
        assert state_of(searcher.pid) == "T"
    assert state_of(searcher.pid) != "T"


@pytest.mark.parametrize(("overlap", "paused"), [("all", False), ("building", True), ("none", True)])
def test_a_timing_and_work_alone_pause_searches(searcher, overlap, paused):
    pool = WorkerPool.__new__(WorkerPool)
    pool.timing_context, pool._measuring = contextlib.nullcontext, threading.Lock()
    hold_back(replace(CONFIG, overlap=overlap), pool, [searcher])
    with alone_on(pool):
        assert comes_to_stand_still(searcher.pid) if paused else state_of(searcher.pid) != "T"


def test_a_process_that_starts_is_not_held_back_by_what_is_built(searcher):
    starting = ProcessSearcher.__new__(ProcessSearcher)
    starting.worker = SimpleNamespace(current=SimpleNamespace(ready=False))
    answer(searcher, opening())
    with hold_back(replace(CONFIG, overlap="none"), None, [starting, searcher])():
        assert comes_to_stand_still(searcher.pid)


def test_a_process_that_dies_is_replaced_and_stays_paused(searcher):
    before = searcher.pid
    with held_back([searcher]):
        assert comes_to_stand_still(before)
        os.kill(before, signal.SIGKILL)
        assert searcher.connection.poll(30)
        with pytest.raises(WorkerLostError, match="signal 9"):
            searcher.reply()
        assert searcher.pid != before and comes_to_stand_still(searcher.pid)
    assert len(traces(answer(searcher, opening()))) == 2


def test_templates_of_a_cpu_leave_the_intrinsics_of_other_devices_for_later():
    code = """
import sys
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.templates.cpu.programs import template_traces
from foretune.compiler.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
task = to_task(Dense(rows=8, in_features=64, out_features=32))
target = parse_target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
assert template_traces(task.mod, target, target_hardware(target, measured=False), 1)
assert "tvm.s_tir.tensor_intrin.x86" in sys.modules
assert "tvm.s_tir.tensor_intrin.cuda" not in sys.modules
load_tensor_intrinsics()
assert "tvm.s_tir.tensor_intrin.cuda" in sys.modules
"""
    environment = {**os.environ, **without_torch()}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, env=environment)


def test_a_search_for_a_cpu_does_without_the_intrinsics_of_other_devices():
    code = """
import sys
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import design_spaces, load_cpu_intrinsics, make_tune_context, parse_target
load_cpu_intrinsics(alone=True)
task = to_task(Dense(rows=8, in_features=64, out_features=32))
target = parse_target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})  # its rules ask for VNNI's
assert design_spaces(make_tune_context(task.mod, target, seed=0), "task")
from tvm.s_tir import TensorIntrin
from tvm.s_tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN
assert TensorIntrin.get(VNNI_DOT_16x4_INTRIN) is not None
assert "tvm.s_tir.tensor_intrin.cuda" not in sys.modules
"""
    environment = {**os.environ, **without_torch()}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, env=environment)
