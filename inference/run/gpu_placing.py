"""Replacement of calls in a network by faster GPU templates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import PrimFunc

from ...compiler.networks.alternatives.alternatives import calls_of
from ...compiler.networks.lowering.fused_function import kind_of
from ...compiler.tvm_compat import as_task_module, workload_hash
from ..database.fastest_template import FastestTemplate
from .result import TaskResult

if TYPE_CHECKING:  # it imports SciPy, which takes a tenth of a second
    from ...compiler.networks.alternatives.call_chains import CallChain


def placed(
    mod: tvm.IRModule,
    results: Sequence[TaskResult],
    templates: Mapping[str, FastestTemplate],
    chains: Sequence[CallChain],
) -> tuple[tvm.IRModule, list[TaskResult]]:
    """The network with the faster templates, and the corresponding results.

    A template for one task must be faster than the task's schedule. A template for joined calls must be
    faster than the fastest way to compute them separately. Joined calls get a separate result, and their
    tasks then have fewer calls.

    Args:
        mod: network of `to_relax`.
        results: results of its tasks.
        templates: fastest templates by workload hash.
        chains: joined calls of the network.
    """
    slower_s = {
        result.workload_hash: result.tuned_latency_s or result.untuned_latency_s or math.inf
        for result in results
    }
    faster = {
        name: template
        for name, template in templates.items()
        if name in slower_s and template.latency_s < slower_s[name]
    }
    fastest_s = slower_s | {name: template.latency_s for name, template in faster.items()}
    joined = [
        (chain, templates[chain.workload])
        for chain in chains
        if chain.workload in templates
        and templates[chain.workload].latency_s
        < sum(fastest_s.get(name, math.inf) for name in chain.replaces)
    ]
    if not faster and not joined:
        return mod, list(results)
    fewer = Counter(name for chain, _ in joined for name in chain.replaces * len(chain.places))
    found = [
        replace(result, tuned_latency_s=template.latency_s, reason="", template=template.title)
        if (template := faster.get(result.workload_hash)) is not None
        else result
        for result in results
    ]
    found = [replace(result, weight=result.weight - fewer[result.workload_hash]) for result in found]
    by_name = {result.workload_hash: result for result in results}
    found += [_joined_result(chain, template, by_name) for chain, template in joined]
    return _launching_templates(mod, faster, joined), found


def _joined_result(
    chain: CallChain, template: FastestTemplate, results: Mapping[str, TaskResult]
) -> TaskResult:
    """Result for joined calls; the untuned latency is the sum over their tasks."""
    replaced = [results[name] for name in chain.replaces if name in results]
    untuned_s = sum(result.untuned_latency_s or math.inf for result in replaced)
    return TaskResult(
        name=chain.name,
        operator=chain.match.problem.kernel,
        workload_hash=chain.workload,
        weight=len(chain.places),
        flops=sum(result.flops for result in replaced),
        untuned_latency_s=untuned_s if replaced and math.isfinite(untuned_s) else None,
        tuned_latency_s=template.latency_s,
        candidates_scored=0,
        candidates_measured=0,
        candidates_failed=0,
        search_s=0.0,
        measure_s=0.0,
        predicted_scores=[],
        measured_latencies_s=[],
        template=template.title,
    )


def _launching_templates(
    mod: tvm.IRModule,
    faster: Mapping[str, FastestTemplate],
    joined: Sequence[tuple[CallChain, FastestTemplate]],
) -> tvm.IRModule:
    """The module with launches of these templates, without functions that nothing calls."""
    placer = _Placer(mod)
    entries = {var: f for var, f in mod.functions_items() if isinstance(f, relax.Function)}
    for chain, template in joined:
        callee = placer.added(template, chain.name)
        for place in chain.places:
            placer.calls[place.calls[-1]] = callee, place.inputs
    callees = {
        var: placer.added(found, var.name_hint)
        for var, func in mod.functions_items()
        if isinstance(func, PrimFunc)
        and (found := faster.get(workload_hash(as_task_module(func)))) is not None
    }
    for function in entries.values():
        for result, call in calls_of(function).items():
            if call.args[0] in callees:
                inputs = tuple(call.args[1].fields)
                placer.calls.setdefault(result, (callees[call.args[0]], inputs))
    rewritten = {var: placer.visit_expr(function) for var, function in entries.items()}
    changed = tvm.IRModule({**placer.builder_.get().functions, **rewritten}, attrs=mod.attrs)
    names = [var.name_hint for var in entries]
    passes = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination(names)]
    return tvm.transform.Sequential(passes)(changed)


Callee = tuple[tvm.ir.GlobalVar, list[relax.TensorType]]
"""A function that launches a template, and the arrays that it writes: the output, and maybe a workspace."""


@mutator
class _Placer(PyExprMutator):
    """Binds results to launches of templates. The calls that they replace lose all readers."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.calls: dict[relax.Var, tuple[Callee, tuple[relax.Expr, ...]]] = {}

    def added(self, template: FastestTemplate, name: str) -> Callee:
        """Adds the function of a template to the module, and returns it with the kinds of its outputs."""
        function = template.function
        written = [param for param in function.params if param.name in ("workspace", "output")]
        added = self.builder_.add_func(function.without_attr("global_symbol"), f"{name}_template")
        return added, [kind_of(param) for param in written]

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var not in self.calls:
            super().visit_var_binding_(binding)
            return
        (callee, kinds), inputs = self.calls[binding.var]
        call = relax.call_tir(callee, [self.visit_expr(each) for each in inputs], kinds)
        result = call if len(kinds) == 1 else relax.TupleGetItem(self.builder_.emit(call), len(kinds) - 1)
        self.builder_.emit_normalized(relax.VarBinding(binding.var, self.builder_.normalize(result)))
