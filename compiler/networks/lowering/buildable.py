"""Lowering whose functions can be built: operators that TVM builds no code for run in another data type.

Code generation fails for a few operators on a few data types; an equality of booleans is one. Without this
check, such an operator would end a run after all tasks are tuned. The check generates code without
optimising it, for one function of each kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target

from ...codegen.lifted_constants import with_lifted_constants
from ...codegen.passes import improve_code
from ...codegen.plain_schedules import unoptimised
from ...targets import is_cpu
from ...types import TYPES, WIDE
from .lowering import Lowering, lower

_INTEGERS, _FLOATS = ("int32", WIDE), (WIDE,)

WIDER = {
    **dict.fromkeys(("bool", "int16"), _INTEGERS),
    **{one.name: _INTEGERS if one.is_integer else _FLOATS for one in TYPES if one.bits < 32},
}
"""Data types that hold each value of another, those tried first in front."""

Stage = Callable[[str], AbstractContextManager[object]]
"""Context of a clock around a step, by the step's name."""

_KEPT = ("call_tir", "reshape")
"""Operators of lowered networks."""

LOWERING, CHECKING = "lowering to TIR", "check that TVM builds it"

RECAST = "foretune.recast"
"""Attribute of a module from `lower_buildable`: one text for each operator that runs in another data type."""


LAYOUT_KEPT = "foretune.layout_kept"
"""Attribute of a module from `lower_buildable` that could not be converted to channels last."""


class UnbuildableOperatorError(RuntimeError):
    """TVM builds no code for an operator, in no data type that holds its values."""


def recast_operators(mod: tvm.IRModule) -> list[str]:
    """Operators of a module from `lower_buildable` that run in another data type, such as
    `equal of bool in int32`."""
    return [str(text) for text in (mod.attrs or {}).get(RECAST, [])]


def keeps_layout(mod: tvm.IRModule) -> bool:
    """Whether TVM's conversion to channels last failed on a module from `lower_buildable`."""
    return LAYOUT_KEPT in (mod.attrs or {})


def lower_buildable(
    mod: tvm.IRModule, target: Target, lowering: Lowering, stage: Stage = nullcontext
) -> tvm.IRModule:
    """`lower`, with operators in another data type where code generation fails otherwise.

    Only the code of CPUs is checked: unscheduled functions have none on a GPU. Raises
    UnbuildableOperatorError, which names the operators.
    """
    lowered = None
    try:
        with stage(LOWERING):
            lowered = _lowered(mod, target, lowering)
        if is_cpu(target):
            with stage(CHECKING):
                without_weights, _ = with_lifted_constants(lowered)
                generate_code(one_of_each_kind(without_weights), target)
    except Exception as error:  # legalisation and code generation raise many types
        if not is_cpu(target):
            raise
        with stage(CHECKING):
            return _lower_recast(mod, lowered, target, lowering, error)
    return lowered


def left_operators(lowered: tvm.IRModule) -> list[str]:
    """Operators with their tensors that TVM has not turned into functions, for example without known extents.

    Code generation fails at them and names none.
    """
    left: dict[str, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            name = expr.op.name.removeprefix("relax.")
            if expr.op.has_attr("FLegalize") and name not in _KEPT:
                types = ", ".join(str(argument.ty) for argument in _tensors(expr))
                left[f"{name} of {types}"] = None

    for func in lowered.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return list(left)


def _lowered(mod: tvm.IRModule, target: Target, lowering: Lowering) -> tvm.IRModule:
    """`lower`; in the network's own layout if TVM cannot lower channels last and nobody asked for them."""
    lowered, failure = None, None
    try:
        lowered = lower(mod, target, lowering)
    except Exception as error:  # TVM's passes raise many types
        failure = error
    if lowering.channels_last is None and (lowered is None or left_operators(lowered)):
        with suppress(Exception):  # then the layout is not the reason
            kept = lower(mod, target, replace(lowering, channels_last=False))
            if lowered is None or not left_operators(kept):
                return kept.with_attr(LAYOUT_KEPT, 1)
    if lowered is None:
        assert failure is not None
        raise failure
    return lowered


def one_of_each_kind(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with the body of one function of each kind; the others are empty.

    Functions are of one kind if they fuse the same operators on as many axes and the same data types. Code
    generation fails by operator and data type, not by extents, and a network of 200 tasks has 30 kinds.
    """
    seen: set[tuple[Any, ...]] = set()
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, tvm.tirx.PrimFunc):
            kind = _kind(var.name_hint, func)
            if kind in seen:
                changed[var] = func.with_body(tvm.tirx.Evaluate(0))
            seen.add(kind)
    return changed


def _kind(name: str, func: tvm.tirx.PrimFunc) -> tuple[Any, ...]:
    """Operators of a function by its name, which numbers them, and axes and data type of each argument."""
    arguments = [(len(x.shape), str(x.dtype)) for x in func.params if isinstance(x, tvm.tirx.Buffer)]
    return re.sub(r"\d+(?=_|$)", "", name), *arguments


def generate_code(mod: tvm.IRModule, target: Target) -> None:
    """Generates code of a lowered module for a CPU, without optimising it; raises what TVM raises."""
    improve_code()
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["FuseOps", "FuseTIR"]):
        tvm.compile(mod, target=unoptimised(target))


def _lower_recast(
    mod: tvm.IRModule,
    failed: tvm.IRModule | None,
    target: Target,
    lowering: Lowering,
    error: Exception,
) -> tvm.IRModule:
    """The lowered module with operators in other data types; `failed` is the one without them, if any."""
    with target:
        mod = tvm.transform.Sequential(
            [relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings()]
        )(mod)
    dtypes: dict[str, str] = {}
    recast, failing = [], []
    for key, call in _distinct_calls(mod).items():
        if _builds(call, None, target):
            continue
        name, types = call.op.name.removeprefix("relax."), _dtypes(call)
        dtype = next((wider for wider in _wider(types) if _builds(call, wider, target)), None)
        if dtype is None:
            failing.append(f"{name} of {', '.join(types)}")
        else:
            dtypes[key] = dtype
            recast.append(f"{name} of {', '.join(dict.fromkeys(types))} in {dtype}")
    if failing:
        raise UnbuildableOperatorError(f"TVM builds no code for {'; '.join(failing)}") from error
    if not dtypes:  # nothing that one operator alone explains
        if failed is not None and (left := left_operators(failed)):
            raise UnbuildableOperatorError(f"TVM makes no function of {'; '.join(left)}") from error
        raise error
    recasting = _Recast(dtypes, mod)
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            changed[var] = recasting.visit_expr(func)
    lowered = _lowered(changed, target, lowering)
    generate_code(lowered, target)
    return lowered.with_attr(RECAST, list(dict.fromkeys(recast)))


def _distinct_calls(mod: tvm.IRModule) -> dict[str, relax.Call]:
    """Calls of Relax operators, one of each operator, attributes and argument types."""
    found: dict[str, relax.Call] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op) and _tensors(expr):
            found.setdefault(_key(expr), expr)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return found


def _key(call: relax.Call) -> str:
    arguments = [str(arg.ty) if _is_tensor(arg) else str(arg) for arg in _flat(call)]
    return f"{call.op.name}({'; '.join(arguments)}) {call.attrs}"


def _flat(call: relax.Call) -> Iterator[relax.Expr]:
    """Arguments of a call, with the fields of a tuple in its place."""
    for argument in call.args:
        yield from argument.fields if isinstance(argument, relax.Tuple) else (argument,)


def _is_tensor(expr: relax.Expr) -> bool:
    return isinstance(expr.ty, relax.TensorType)


def _tensors(call: relax.Call) -> list[relax.Expr]:
    return [argument for argument in _flat(call) if _is_tensor(argument)]


def _dtypes(call: relax.Call) -> list[str]:
    return [str(argument.ty.dtype) for argument in _tensors(call)]


def _wider(types: Sequence[str]) -> list[str]:
    """Data types to try for arguments of these types."""
    return list(dict.fromkeys(wider for dtype in types for wider in WIDER.get(dtype, ())))


def _builds(call: relax.Call, dtype: str | None, target: Target) -> bool:
    """Whether the operator alone builds, computed in `dtype` or unchanged."""
    builder = relax.BlockBuilder()
    parameters: list[relax.Var] = []

    def parameter(argument: relax.Expr) -> relax.Expr:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([parameter(field) for field in argument.fields])
        if not _is_tensor(argument):
            return argument
        parameters.append(relax.Var(f"x{len(parameters)}", argument.ty))
        return parameters[-1]

    arguments = [parameter(argument) for argument in call.args]
    alone = relax.Call(call.op, arguments, call.attrs, call.ty_args)
    try:
        with builder.function("main", parameters):
            alone = builder.normalize(alone)
            result = builder.emit(alone if dtype is None else _computed_in(builder, alone, dtype))
            builder.emit_func_output(result)
        generate_code(builder.get(), target)
    except Exception:  # legalisation and code generation raise many types
        return False
    return True


def _computed_in(builder: relax.BlockBuilder, call: relax.Call, dtype: str) -> relax.Expr:
    """The call with its arguments of narrower types in `dtype`, and its result in the type that it had."""

    def cast(argument: relax.Expr) -> relax.Expr:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([cast(field) for field in argument.fields])
        if not _is_tensor(argument) or dtype not in WIDER.get(str(argument.ty.dtype), ()):
            return argument
        return builder.emit(relax.op.astype(argument, dtype))

    computed = builder.emit(
        relax.Call(call.op, [cast(argument) for argument in call.args], call.attrs, call.ty_args)
    )
    was = str(call.ty.dtype)
    return computed if str(computed.ty.dtype) == was else relax.op.astype(computed, was)


@mutator
class _Recast(PyExprMutator):
    """Computes calls in other data types."""

    def __init__(self, dtypes: Mapping[str, str], mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.dtypes = dtypes

    def visit_call_(self, call: relax.Call) -> Any:
        """Casts around the calls whose keys have a data type."""
        was = isinstance(call.op, tvm.ir.Op) and self.dtypes.get(_key(call))
        visited = self.visit_expr_post_order(call)
        return _computed_in(self.builder_, self.builder_.normalize(visited), was) if was else visited
