"""Templates of several calls in a network: taken where they are faster than all that they replace."""

from __future__ import annotations

from collections import Counter

import pytest
import tvm
from foretune.compiler.networks.alternatives.alternatives import call_counts
from foretune.compiler.networks.alternatives.call_chains import CallChain, call_chains
from foretune.compiler.templates.gpu.function import launches_template
from foretune.compiler.templates.gpu.problem import Problem
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.inference.database.fastest_template import FastestTemplate
from foretune.inference.run.gpu_placing import placed
from foretune.inference.run.gpu_templates import GpuTemplates, joined_calls
from foretune.inference.run.result import TaskResult
from support.gpu_networks import TARGET, lowered, made_template
from support.results import make_task
from support.template_text import TILING, emulated


def setting() -> tuple[tvm.IRModule, list[TaskResult], CallChain, FastestTemplate]:
    """A layer of BERT whose tasks take 1 ms each, and a template of its attention that takes 1 us."""
    _, mod, tasks = lowered("layer")
    results = [
        make_task(task.name, workload_hash=task.workload_hash, weight=task.weight, tuned_latency_s=1e-3)
        for task in tasks
    ]
    attention = call_chains(mod)[0]
    template = made_template(attention.function, attention.match, lambda problem: emulated(problem, TILING))
    return mod, results, attention, template


def test_a_faster_template_takes_the_place_of_all_its_calls() -> None:
    mod, results, attention, template = setting()
    changed, found = placed(mod, results, {attention.workload: template}, [attention])
    *others, joined = found
    assert sum(map(launches_template, changed.functions.values())) == 1
    before = Counter({result.workload_hash: result.weight for result in results})
    before.subtract(attention.replaces)
    assert {result.workload_hash: result.weight for result in others} == dict(before)
    calls = len(attention.replaces)
    assert sum(before.values()) == sum(result.weight for result in results) - calls
    left = call_counts(changed)
    assert all(left[result.workload_hash] == result.weight for result in others)
    assert (joined.name, joined.operator, joined.weight) == ("fused_attention", "attention", 1)
    assert joined.tuned_latency_s == 1e-6
    assert joined.template == "attention in blocks of 16x16, 1 warp, 2 stages"
    assert joined.untuned_latency_s == pytest.approx(calls * 0.010)
    assert joined.flops == pytest.approx(calls * 2e8)


def test_a_template_must_be_faster_than_the_fastest_way_of_all() -> None:
    mod, results, attention, template = setting()
    slow = FastestTemplate(8e-3, template.title, template.module)
    assert len(attention.replaces) == 8
    unchanged, same = placed(mod, results, {attention.workload: slow}, [attention])
    assert unchanged.same_as(mod) and same == results
    # Also than a template of one of the calls: then the others take 7 ms.
    product = attention.replaces[3]
    own = FastestTemplate(1e-6, "product", template.module)
    nearly = FastestTemplate(7.5e-3, template.title, template.module)
    templates = {attention.workload: nearly, product: own}
    _, found = placed(mod, results, templates, [])
    assert [result.template for result in found if result.workload_hash == product] == ["product"]
    with_chain = placed(mod, results, templates, [attention])[1]
    assert [result.weight for result in with_chain] == [result.weight for result in results]
    # Nobody knows how slow a call without a latency is.
    unknown = [
        make_task(
            result.name, workload_hash=result.workload_hash, tuned_latency_s=None, untuned_latency_s=None
        )
        for result in results
    ]
    assert placed(mod, unknown, {attention.workload: slow}, [attention])[1][-1].template


class Timed:
    """Executor on which everything takes 2 us."""

    def __init__(self) -> None:
        self.jobs = 0

    def measure(self, jobs):
        self.jobs += len(jobs)
        return [MeasureOutcome(run_secs=(2e-6,)) for _ in jobs]


def test_joined_calls_are_measured_once_and_placed_in_every_run(tmp_path) -> None:
    mod, results, attention, _ = setting()
    joined = joined_calls(mod, TARGET)
    assert attention.workload in joined and len(joined) == 3
    assert joined_calls(mod, parse_target("llvm")) == {}
    templates, executor = GpuTemplates(tmp_path, TARGET, 1), Timed()

    def compile_(problem: Problem, *_: object) -> list:
        return [emulated(problem, TILING)]

    due = templates.due([], joined)
    assert set(due) == set(joined)
    assert templates.measure(due, executor, compile_=compile_) == 3
    for known in (templates, GpuTemplates(tmp_path, TARGET, 1)):
        assert known.due([], joined) == {}
        changed, found = known.placed(mod, results)
        assert sum(map(launches_template, changed.functions.values())) == 3
        assert [result.name for result in found[len(results) :]] == [
            *("fused_attention", "fused_product_norm", "fused_product_norm"),
        ]
    assert executor.jobs == 3
