"""Cache simulation of small programs: every access of the lowered loops, in order, through an LRU cache.

The interpreter evaluates loops, indices and conditions of a scheduled module one iteration at a time, so that
it shares nothing with the estimate of `compiler.counts.traffic` but TVM's lowering.
"""

from __future__ import annotations

from collections import OrderedDict

import tvm
import tvm_ffi
from foretune.compiler.counts.traffic import _LOWER
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import BufferStore, For, IfThenElse, SeqStmt, Var

OPERATORS = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "LT": "<", "LE": "<=", "GT": ">",
    "GE": ">=", "EQ": "==", "And": "and", "Or": "or",
}  # fmt: skip


class LruCache:
    """Cache with least-recently-used replacement and write-allocate.

    Lines whose addresses differ by a multiple of `span_bytes` share a set; by default there is one set.
    """

    def __init__(self, cache_bytes: int, line_bytes: int, span_bytes: int | None = None) -> None:
        sets = (span_bytes or line_bytes) // line_bytes
        self.ways = cache_bytes // line_bytes // sets
        self.line_bytes = line_bytes
        self.misses = 0
        self._sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(sets)]

    def touch(self, address: int) -> None:
        line = address // self.line_bytes
        held = self._sets[line % len(self._sets)]
        if line in held:
            held.move_to_end(line)
            return
        self.misses += 1
        held[line] = None
        if len(held) > self.ways:
            held.popitem(last=False)

    @property
    def fetched_bytes(self) -> int:
        return self.misses * self.line_bytes


def simulated_bytes(
    mod: tvm.IRModule, cache_bytes: int, line_bytes: int, span_bytes: int | None = None
) -> int:
    """Bytes that one call of a scheduled module fetches past a cache; loops run one after the other."""
    lowered = _LOWER(mod)["main"]
    source = _Source()
    source.statement(lowered.body, "    ")
    text = "\n".join(["def run(touch):", *source.lines])
    scope: dict = {}
    exec(text, scope)
    cache = LruCache(cache_bytes, line_bytes, span_bytes)
    scope["run"](cache.touch)
    return cache.fetched_bytes


class _Source:
    """Python source that touches the address of every access, reads before the write."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[Var, str] = {}
        self._starts: dict[Var, int] = {}
        self._end = 0

    def statement(self, node: object, indent: str) -> None:
        if isinstance(node, For):
            extent, name = int(node.extent.value), self._name(node.loop_var)
            if extent == 1:  # Python nests no more than twenty blocks
                self.lines.append(f"{indent}{name} = 0")
                self.statement(node.body, indent)
                return
            self.lines.append(f"{indent}for {name} in range({extent}):")
            self.statement(node.body, indent + "    ")
        elif isinstance(node, IfThenElse):
            self.lines.append(f"{indent}if {self._value(node.condition)}:")
            self.statement(node.then_case, indent + "    ")
        elif isinstance(node, SeqStmt):
            for child in node.seq:
                self.statement(child, indent)
        elif isinstance(node, SBlockRealize):
            self.statement(node.block, indent)
        elif isinstance(node, SBlock):
            self.statement(node.body, indent)
        elif isinstance(node, BufferStore):
            self._reads(node.value, indent)
            self._touch(node.buffer, node.indices, indent)
        else:
            raise TypeError(f"{type(node).__name__} is not interpreted")

    def _reads(self, value: object, indent: str) -> None:
        if isinstance(value, Call) and value.op.name == "prim.if_then_else":
            self.lines.append(f"{indent}if {self._value(value.args[0])}:")
            self.lines.append(f"{indent}    pass")
            self._reads(value.args[1], indent + "    ")
            self.lines.append(f"{indent}else:")
            self.lines.append(f"{indent}    pass")
            self._reads(value.args[2], indent + "    ")
            return
        if isinstance(value, TensorLoad):
            self._touch(value.source, value.indices, indent)
            return
        for part in ("a", "b", "value"):
            child = getattr(value, part, None)
            if isinstance(child, tvm_ffi.Object):
                self._reads(child, indent)

    def _touch(self, buffer: Var, indices: object, indent: str) -> None:
        offset = "0"
        for extent, index in zip(buffer.shape, indices, strict=True):
            offset = f"({offset}) * {int(extent)} + {self._value(index)}"
        size = tvm.DataType(str(buffer.dtype)).bits // 8
        self.lines.append(f"{indent}touch({self._start(buffer, size)} + {size} * ({offset}))")

    def _value(self, node: object) -> str:
        if isinstance(node, Var):
            return self._name(node)
        kind = type(node).__name__
        if kind in OPERATORS:
            return f"({self._value(node.a)} {OPERATORS[kind]} {self._value(node.b)})"
        if kind == "Not":
            return f"(not {self._value(node.a)})"
        return str(int(node.value))

    def _name(self, variable: Var) -> str:
        return self._names.setdefault(variable, f"i{len(self._names)}")

    def _start(self, buffer: Var, element_bytes: int) -> int:
        if buffer not in self._starts:
            size = element_bytes
            for extent in buffer.shape:
                size *= int(extent)
            self._starts[buffer] = self._end
            self._end += -(-size // 64) * 64  # buffers begin with a line
        return self._starts[buffer]
