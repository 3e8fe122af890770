"""Object code of measured programs, which the library of the network links instead of compiling them again.

The symbol of a program is a hash of its code and target. A network finds the object of a function by this
symbol, so that it never links the object of another function.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.support.cc import get_cc
from tvm.target import Target

from ..targets import is_cpu
from ..tvm_compat import changes_layout, target_to_json
from .argument_checks import is_internal

_PREFIX = "__tvm_ffi_"
"""Prefix of TVM's functions in an object file."""

_SYMBOL = re.compile(rb"\0" + _PREFIX.encode() + rb"(object_[0-9a-f]{32})\0")
_NAME = "object_"


def linkable(mod: tvm.IRModule, target: Target, entry: str) -> tvm.IRModule:
    """A module whose function `entry` has the symbol of its object; it can be called by both names."""
    func = _without_layout_change(mod[entry])
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    named = func.with_attr("global_symbol", symbol_of(func, target))
    changed[entry] = named.with_attr("tirx.is_entry_func", True)
    return changed


def _without_layout_change(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function without the empty loops that stand for a layout change, which networks do not have."""

    def changed(seq: tirx.SeqStmt) -> tirx.Stmt:
        kept = [stmt for stmt in seq.seq if not changes_layout(stmt)]
        if len(kept) == len(seq.seq):
            return seq
        return kept[0] if len(kept) == 1 else tirx.SeqStmt(kept)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.SeqStmt, changed)))


def symbol_of(func: tirx.PrimFunc, target: Target) -> str:
    """Symbol of the code of a scheduled function for a target; its name and attributes do not matter."""
    bare = func
    for name in list(func.attrs.keys()):
        if name != "tirx.noalias":
            bare = bare.without_attr(name)
    text = f"{tvm_ffi.structural_hash(bare) & 0xFFFFFFFFFFFFFFFF:016x} {target_to_json(target)}"
    return _NAME + sha256(text.encode()).hexdigest()[:32]


class ObjectFiles:
    """Object files in memory, by the symbol of their program."""

    def __init__(self) -> None:
        self._found: dict[str, bytes] = {}

    def keep(self, data: bytes) -> None:
        """Keeps an object file; one without the symbol of `linkable` is ignored."""
        if symbol := _SYMBOL.search(data):
            self._found[symbol[1].decode()] = data

    def clear(self) -> None:
        """Forgets all object files."""
        self._found.clear()

    def linked_into(self, mod: tvm.IRModule, target: Target) -> Linked:
        """Functions of a network that can be linked: those of `marked_internal` with an object file.

        Empty if this machine does not link, or not by aliases of symbols.
        """
        if not is_cpu(target) or get_cc() is None or platform.system() != "Linux" or not self._found:
            return NOTHING_LINKED
        symbols = {
            var.name_hint: symbol
            for var, func in mod.functions_items()
            if is_internal(func) and (symbol := symbol_of(func, target)) in self._found
        }
        return Linked(symbols, {symbol: self._found[symbol] for symbol in symbols.values()})


@dataclass(frozen=True)
class Linked:
    """Functions of a network whose code is in object files."""

    symbols: Mapping[str, str]
    """Symbol of each function by its name in the network."""
    objects: Mapping[str, bytes]
    """Object files by symbol."""

    def pipeline(self) -> Any:
        """Argument `relax_pipeline` of `tvm.compile` that leaves the functions to the linker."""
        if not self.symbols:
            return "default"
        leave = tvm.transform.module_pass(self._left_out, opt_level=0, name="LeaveToLinker")
        return tvm.transform.Sequential([relax.get_pipeline("default"), leave])

    def _left_out(self, mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        functions = {
            var: relax.ExternFunc(var.name_hint) if var.name_hint in self.symbols else func
            for var, func in mod.functions_items()
        }
        return tvm.IRModule(functions, attrs=mod.attrs)

    def link_arguments(self, folder: Path) -> dict[str, list[str]]:
        """Arguments of `export_library`, after writing the object files to a folder."""
        if not self.symbols:
            return {}
        paths = {symbol: folder / f"{symbol}.o" for symbol in self.objects}
        for symbol, path in paths.items():
            path.write_bytes(self.objects[symbol])
        aliases = [f"-Wl,--defsym={_PREFIX}{name}={_PREFIX}{of}" for name, of in self.symbols.items()]
        return {"addons": [str(path) for path in paths.values()], "options": aliases}


NOTHING_LINKED = Linked({}, {})
"""A network whose functions are all compiled."""
