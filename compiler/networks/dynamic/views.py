"""Reshapes of symbolic extents in a form that TVM recognises and turns into views, which copy nothing.

TVM proves that each element keeps its place in memory. The proof may fail where the loops are those of the
output, and one of its axes is several axes of the input. With the loops of the input it is plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import Range
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import For, ForKind, IterVar, PrimFunc
from tvm.tirx.buffer import is_buffer_var

from ...operators.shared.tir import extents
from ...templates.cpu.attention.sampled_values import SampledValues, UnknownStepError
from ...templates.cpu.contraction import blocks_of
from ...templates.cpu.dynamic.nodes import INDEX, fixed, number, simple, split_index, store
from ...tvm_compat import called_function, relax_bindings
from .bound import bound, symbols_of
from .polynomials import Ends, sampled_sizes


def with_views(mod: tvm.IRModule, ranges: Mapping[str, Ends]) -> tvm.IRModule:
    """The module with reshapes in a form that becomes a view; `ranges` are those of its symbols."""
    made = {
        var: other
        for var, func in mod.functions_items()
        if isinstance(func, PrimFunc) and (other := _over_input(func)) is not None
    }
    if not made:
        return mod
    kept = {var.name_hint for var in made}
    used = {name: ranges[name] for name in symbols_of(mod["main"])}
    for sizes in sampled_sizes(used)[:2]:
        kept &= _unchanged(bound(mod, sizes), mod)
    changed = {
        var: made[var] if var in made and var.name_hint in kept else func
        for var, func in mod.functions_items()
    }
    return tvm.IRModule(changed, attrs=mod.attrs)


def _over_input(func: PrimFunc) -> PrimFunc | None:
    """The function as a reshape with the loops of its input, if it may be one that TVM does not recognise."""
    blocks = blocks_of(tvm.IRModule({"main": func}))
    params = func.params
    if len(params) != 2 or not all(map(is_buffer_var, params)) or len(blocks) != 1:
        return None
    symbolic = any(fixed(extent) is None for extent in params[0].shape)
    moves = isinstance(getattr(blocks[0].body, "value", None), TensorLoad)
    if not symbolic or not moves or relax.analysis.has_reshape_pattern(func):
        return None
    source, target = params
    axes = [
        IterVar(Range(0, number(extent)), tirx.Var(f"v{at}", INDEX), IterVar.DataPar)
        for at, extent in enumerate(source.shape)
    ]
    flat: Any = number(0)
    for axis, extent in zip(axes, source.shape, strict=True):
        flat = flat * extent + axis.var
    value = tirx.BufferLoad(source, [axis.var for axis in axes])
    body = store(target, value, split_index(simple(flat), list(target.shape)))
    block = SBlock(axes, [source[_whole(source)]], [target[_whole(target)]], "reshape", body)
    loops = [tirx.Var(f"at{at}", INDEX) for at in range(len(axes))]
    nest: Any = SBlockRealize(loops, True, block)
    for var, extent in reversed(list(zip(loops, source.shape, strict=True))):
        nest = For(var, number(0), number(extent), ForKind.SERIAL, nest)
    made = PrimFunc(params, SBlockRealize([], True, SBlock([], [], [], "root", nest)), attrs=func.attrs)
    return made if relax.analysis.has_reshape_pattern(made) else None


def _whole(array: Any) -> tuple[slice, ...]:
    return tuple(slice(0, extent) for extent in array.shape)


def _unchanged(copy: tvm.IRModule, mod: tvm.IRModule) -> set[str]:
    """Names of the functions of `mod` whose calls in its copy keep all elements in order."""
    found: dict[str, bool] = {}
    pairs = zip(relax_bindings(mod["main"]), relax_bindings(copy["main"]), strict=True)
    for (_, value), (_, bound_value) in pairs:
        name, own = called_function(value), called_function(bound_value)
        if name is not None and own is not None and isinstance(copy[own], PrimFunc):
            found[name] = found.get(name, True) and _keeps_order(copy[own])
    return {name for name, right in found.items() if right}


def _keeps_order(func: PrimFunc) -> bool:
    if len(func.params) != 2:
        return False
    size = int(np.prod(extents(func.params[-1])))
    places = np.arange(size)
    if int(np.prod(extents(func.params[0]))) != size:
        return False
    values = SampledValues(tvm.IRModule({"main": func}), {0: places.astype(np.float64)})
    try:
        return bool(np.array_equal(values.output(places), places))
    except UnknownStepError:
        return False
