"""Functions of a network without the checks of their arguments.

TVM checks type, shape and strides of each argument in each function. LLVM takes a quarter of its time for
these checks. They can fail only for arrays of the caller: constants, and the results of other functions, are
allocated by the network itself. Programs are measured without them, too.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.tirx import PrimFunc

from ..tvm_compat import called_function, relax_bindings

_UNCHECKED = "foretune.unchecked"
"""Attribute of a function that gets no arrays of the caller."""


def marked_internal(mod: tvm.IRModule) -> tvm.IRModule:
    """A network in which functions that get no arrays of the caller are marked for `without_checks`.

    Views of the caller's arrays, such as reshaped inputs, are the caller's arrays, too.
    """
    called: set[str] = set()
    checked: set[str] = set()
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            _add_calls(func, called, checked)
    marked = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for name in called - checked:
        marked[name] = as_internal(mod[name])
    return marked


def as_internal(func: PrimFunc) -> PrimFunc:
    """The function, marked as one that gets no arrays of the caller."""
    return func.with_attr(_UNCHECKED, True)


def _add_calls(func: relax.Function, called: set[str], checked: set[str]) -> None:
    """Adds names of TIR functions to `called`, and to `checked` if they may get arrays of the caller."""
    own: set[relax.Var] = set()  # arrays that the network allocates
    for var, value in relax_bindings(func):
        if (name := called_function(value)) is not None:
            called.add(name)
            if not all(_is_own(argument, own) for argument in value.args[1].fields):
                checked.add(name)
            own.add(var)
        elif _is_own(value.tuple_value if isinstance(value, relax.TupleGetItem) else value, own):
            own.add(var)
        elif not isinstance(value, relax.Var):  # another kind of call, possibly of a TIR function
            checked.update(one.name_hint for one in relax.analysis.all_global_vars(value))


def _is_own(value: relax.Expr, own: set[relax.Var]) -> bool:
    return isinstance(value, GenericConst) or (isinstance(value, relax.Var) and value in own)


def is_internal(func: object) -> bool:
    """Whether `marked_internal` marked a function."""
    return isinstance(func, PrimFunc) and bool(func.attrs.get(_UNCHECKED, False))


def without_checks(mod: tvm.IRModule) -> tvm.IRModule:
    """A lowered module without the checks of the functions that `marked_internal` marked."""
    marked = {var: func for var, func in mod.functions_items() if is_internal(func)}
    if not marked:
        return mod
    unchecked = tvm.tirx.transform.SkipAssert()(tvm.IRModule(marked))
    functions = {**dict(mod.functions_items()), **dict(unchecked.functions_items())}
    return tvm.IRModule(functions, attrs=mod.attrs)
