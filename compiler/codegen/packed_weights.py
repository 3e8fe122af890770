"""Constant weights in the layouts that schedules chose, which would otherwise be repacked in each run.

TVM's `FoldConstant` compiles the layout change of each call separately and optimised, and once more for each
layer of the same shape. Its result still has the functions of these calls, which would be compiled into the
library. Here, all layout changes are compiled once, in one module, without optimisation.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target
from tvm.tirx import PrimFunc

from ..tvm_compat import called_function, has_blocks, relax_bindings
from .plain_schedules import unoptimised


def with_packed_weights(scheduled_mod: tvm.IRModule) -> tvm.IRModule:
    """The module with constants in the layouts that schedules chose, without functions that nothing calls."""
    # The pass fails on functions without blocks, in which it has nothing to change.
    loose = {
        var: func
        for var, func in scheduled_mod.functions_items()
        if isinstance(func, PrimFunc) and not has_blocks(func)
    }
    kept = {var: func for var, func in scheduled_mod.functions_items() if var not in loose}
    split = relax.transform.SplitLayoutRewritePreproc()(tvm.IRModule(kept, attrs=scheduled_mod.attrs))
    for var, func in loose.items():
        split[var] = func
    given = {var.name_hint for var in scheduled_mod.get_global_vars()}
    return _without_unused(relax.transform.FoldConstant()(_packed(split, given)))


def _packed(split: tvm.IRModule, given: set[str]) -> tvm.IRModule:
    """The module with the results of calls that only change the layout of constants.

    Such a call is one of a function whose name is not in `given`.
    """
    functions = {var: func for var, func in split.functions_items() if isinstance(func, relax.Function)}
    layouts = {
        name: split[name].without_attr("target")
        for func in functions.values()
        for _, value in relax_bindings(func)
        if (name := called_function(value)) is not None and name not in given and _constants(value)
    }
    if not layouts:
        return split
    named = {name: func.with_attr("global_symbol", name) for name, func in layouts.items()}
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        library = tvm.tirx.build(tvm.IRModule(named), target=unoptimised(Target("llvm")))
    change = _Packing(split, {name: library[name] for name in layouts})
    packed = tvm.IRModule(split.functions, attrs=split.attrs)
    for var, func in functions.items():
        packed[var] = change.visit_expr(func)
    return packed


@mutator
class _Packing(PyExprMutator):
    """Replaces calls that only change the layout of constants by their results."""

    def __init__(self, mod: tvm.IRModule, layouts: dict[str, tvm.runtime.Function]) -> None:
        super().__init__(mod)
        self._layouts = layouts

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Calls the function now, if its arguments are known."""
        layout = self._layouts.get(called_function(call) or "")
        if layout is None or not (constants := _constants(call)):
            return call
        (result,) = call.ty_args
        packed = tvm.runtime.empty([int(extent) for extent in result.shape], str(result.dtype))
        layout(*constants, packed)
        return relax.const(packed)


def _constants(call: relax.Call) -> list[tvm.runtime.Tensor]:
    """The arguments of a call with a single output; empty unless all are constants."""
    arguments = list(call.args[1].fields)
    known = all(isinstance(argument, GenericConst) for argument in arguments)
    single = len(call.ty_args) == 1 and isinstance(call.ty_args[0], relax.TensorType)
    return [argument.value for argument in arguments] if known and single else []


def _without_unused(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without TIR functions that no Relax function names."""
    used = {
        var.name_hint
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for var in relax.analysis.all_global_vars(func)
    }
    kept = {
        var: func
        for var, func in mod.functions_items()
        if not isinstance(func, PrimFunc) or var.name_hint in used
    }
    return tvm.IRModule(kept, attrs=mod.attrs)


_PACKED = "_prepacked"
"""Suffix that TVM adds to the name of a function with prepacked weights."""


def tasks_of_functions(
    packed_mod: tvm.IRModule, hashes: Mapping[str, str], tasks: Mapping[str, str]
) -> dict[str, str]:
    """Name of the task of each function; several functions may run one task.

    Args:
        packed_mod: module that `with_packed_weights` returned.
        hashes: workload hash of each function before packing.
        tasks: name of each task by workload hash.
    """
    names = [var.name_hint for var in packed_mod.get_global_vars()]
    workloads = {name: hashes.get(name.removesuffix(_PACKED), "") for name in names}
    return {name: tasks[workload] for name, workload in workloads.items() if workload in tasks}
