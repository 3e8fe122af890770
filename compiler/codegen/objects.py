"""Object code of programs, which the library of a network links instead of compiling them again.

The symbol of a program is a hash of its code and target. A network finds the object of a function by this
symbol, so that it never links the object of another function. Objects come from measurements, from the user's
cache folder, or from a compilation of their own. A run leaves the objects of its networks in that folder.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.support.cc import get_cc
from tvm.target import Target

from ..host.file_cache import FileCache, code_version
from ..tvm_compat import changes_layout, runs_here, target_to_json
from .argument_checks import as_internal, is_internal
from .compilation import TIMED, compile_module, entries

_PREFIX = "__tvm_ffi_"
"""Prefix of TVM's functions in an object file."""

_SYMBOL = re.compile(rb"\0" + _PREFIX.encode() + rb"(object_[0-9a-f]{32})\0")
_NAME = "object_"


def linkable(mod: tvm.IRModule, target: Target, entry: str) -> tvm.IRModule:
    """A module whose function `entry` has the symbol of its object; it can be called by both names."""
    func = _without_layout_change(mod[entry])
    return _named(tvm.IRModule(mod.functions, attrs=mod.attrs), entry, func, symbol_of(func, target))


def _named(changed: tvm.IRModule, entry: str, func: tirx.PrimFunc, symbol: str) -> tvm.IRModule:
    named = func.with_attr("global_symbol", symbol)
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


def symbol_of(func: tirx.PrimFunc, target: Target, *, checked: bool = False) -> str:
    """Symbol of the code of a scheduled function for a target; its name and attributes do not matter.

    Code that checks its arguments, as measured programs do not, is `checked`.
    """
    bare = func
    for name in list(func.attrs.keys()):
        if name != "tirx.noalias":
            bare = bare.without_attr(name)
    text = f"{tvm_ffi.structural_hash(bare) & 0xFFFFFFFFFFFFFFFF:016x} {target_to_json(target)}"
    text += " checked" * checked
    return _NAME + sha256(text.encode()).hexdigest()[:32]


OBJECTS = FileCache("objects", 2**28)


class ObjectFiles:
    """Object files in memory, by the symbol of their program."""

    def __init__(self, *, cached: bool = False) -> None:
        """With `cached`, objects are read from the cache folder and left there, too."""
        self._found: dict[str, bytes] = {}
        self._cached = cached
        self._in_cache: set[str] = set()
        self._trusted = True

    @property
    def uses_cache(self) -> bool:
        """Whether code of earlier runs may be used."""
        return self._cached and self._trusted

    def keep(self, data: bytes) -> None:
        """Keeps an object file; one without the symbol of `linkable` is ignored."""
        if symbol := _symbol_in(data):
            self._found[symbol] = data

    def distrust(self) -> None:
        """Forgets all object files, also in the cache folder, and links none from now on."""
        for symbol in self._in_cache:
            OBJECTS.remove(_key(symbol))
        self._found.clear()
        self._trusted = False

    def linked_into(self, mod: tvm.IRModule, target: Target, names: Collection[str] | None = None) -> Linked:
        """Functions of a network, by default all, that are linked; each gets an object file if it has none.

        Functions that `marked_internal` did not mark check their arguments. Empty if this machine does not
        link, or not by aliases of symbols.
        """
        if not self._trusted or get_cc() is None or platform.system() != "Linux" or not runs_here(target):
            return NOTHING_LINKED
        symbols: dict[str, str] = {}
        objects: dict[str, bytes] = {}
        for var, func in mod.functions_items():
            name = var.name_hint
            if isinstance(func, tirx.PrimFunc) and (names is None or name in names):
                symbol = symbol_of(func, target, checked=not is_internal(func))
                data = objects.get(symbol) or self._object(symbol, func, target)
                if data is not None:
                    symbols[name], objects[symbol] = symbol, data
        if self._cached:
            new = {symbol: data for symbol, data in objects.items() if symbol not in self._in_cache}
            OBJECTS.store({_key(symbol): [data] for symbol, data in new.items()})
            self._in_cache.update(new)
        return Linked(symbols, objects)

    def prepare(self, mod: tvm.IRModule, target: Target) -> None:
        """Makes the object file of a scheduled program for a network that calls it between other programs."""
        program, _ = entries(mod, checked=False)
        func = as_internal(_without_layout_change(program[TIMED]))
        self.linked_into(tvm.IRModule({TIMED: func}), target)

    def _object(self, symbol: str, func: tirx.PrimFunc, target: Target) -> bytes | None:
        """The object file of a function; None if it does not build, as the network's compilation reports."""
        if symbol in self._found:
            return self._found[symbol]
        if self._cached and (data := OBJECTS.load(_key(symbol))) is not None and _symbol_in(data) == symbol:
            self._in_cache.add(symbol)
            self._found[symbol] = bytes(data)
        else:
            try:
                self.keep(_compiled(func, symbol, target))
            except Exception:  # TVM raises several kinds
                return None
        return self._found.get(symbol)


def _symbol_in(data: bytes | memoryview) -> str | None:
    symbol = _SYMBOL.search(data)
    return None if symbol is None else symbol[1].decode()


def _key(symbol: str) -> str:
    """Name in the cache: other sources and other versions of the libraries compile other code."""
    return sha256(repr([symbol, *code_version()]).encode()).hexdigest()


def _compiled(func: tirx.PrimFunc, symbol: str, target: Target) -> bytes:
    """The object file of a function, compiled as programs are when they are measured."""
    mod = _named(tvm.IRModule(), "main", func, symbol)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.o"
        compile_module(mod, target, checked=not is_internal(func)).jit().write_to_file(str(path))
        return path.read_bytes()


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
