"""Recognition of the operator that a TIR function computes, with its settings."""

from __future__ import annotations

from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm.s_tir.analysis import find_anchor_sblock
from tvm.s_tir.stmt import SBlock

from ..task import ATTENTION_BLOCKS
from ..tvm_compat import argument_buffers, entry_function, layout_free
from . import OPERATOR_SETTINGS
from .shared.tir import TirFunction

Description: TypeAlias = tuple[str, dict[str, Any]]


def describe(mod: tvm.IRModule) -> Description:
    """Operator type (one of `task.operator_types`) and JSON-able settings of the unscheduled entry function.

    Settings have the names of the operator's fields, except the epilogue, for operators that read their
    settings from TIR; other functions list their arguments.
    """
    blocks: list[SBlock] = []
    func = entry_function(mod)
    tvm_ffi.structural_walk(func.body, (SBlock, blocks.append))
    anchor = find_anchor_sblock(mod)
    function = None if anchor is None else TirFunction(anchor, {block.name_hint: block for block in blocks})
    description = None if function is None else _read(function)
    if description is not None:
        operator, settings = description
        return operator, settings | ({"prepack": True} if layout_free(func) else {})
    arguments = {"arguments": [{"shape": list(s), "dtype": d} for s, d in argument_buffers(mod)]}
    if function is not None:
        return _type(function), arguments
    is_attention = {block.name_hint for block in blocks}.issuperset(ATTENTION_BLOCKS)
    return "attention" if is_attention else "elementwise", arguments


def _read(function: TirFunction) -> Description | None:
    """The operator with its settings; None if no operator reads them."""
    operators = OPERATOR_SETTINGS.values()
    marked = [cls for cls in operators if cls.marker in function.blocks]
    for cls in marked or [cls for cls in operators if not cls.marker]:
        settings = cls.read_tir(function)
        if settings is not None:
            return cls.operator, settings
    return None


def _type(function: TirFunction) -> str:
    """Operator type of a function whose settings are not read."""
    types = (cls.type_of(function) for cls in OPERATOR_SETTINGS.values())
    return next((name for name in types if name is not None), "other")
