"""Attention of symbolic extents as one function, in place of its products, softmax and transpositions.

Calls that are attention are found as for fixed shapes (`alternatives.attention`), in copies of the network
with numbers in place of its symbols. Each extent and stride of the function is the polynomial in the symbols
that has the values of these copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target

from ...instruction_sets import Instruction
from ...targets import target_instructions
from ...templates.cpu.attention.attention import BlockedAttention, Blocks, Layout
from ...templates.cpu.attention.attention_kernel import symbolic_attention_function
from ...templates.cpu.attention.choice import attention_blocks, separate_cycles, symbolic_cycles
from ...templates.cpu.chains.chain_template import ASSUMED_CACHES
from ...templates.cpu.dynamic.families import FamilyTask
from ...templates.cpu.dynamic.measured_kernels import ANCHORS, size_at
from ...templates.cpu.dynamic.nodes import INDEX, number
from ...templates.gpu.row_matching import intrinsics
from ...tvm_compat import relax_bindings, target_cores
from ...types import WIDE
from ..alternatives.attention import LEAST_GAIN, Found, found_attention
from ..lowering.lowering import OFF, Lowering
from .bound import bound, symbols_of
from .polynomials import Ends, Polynomial, fitted, sampled_sizes

ATTENTION = "attention"
"""Kind of the task."""

_CALL = 3000
"""Cycles of a call of the library, with the shape and the array of its result."""

_LAYOUTS = ("query", "key", "value", "mask", "output")
_STRIDES = ("start", "batch", "head", "row")
_SIZES = ("batch", "heads", "queries", "keys")


def with_attention(
    mod: tvm.IRModule, ranges: Mapping[str, Ends], target: Target, lowering: Lowering
) -> tuple[tvm.IRModule, list[FamilyTask]]:
    """The module with one function for each attention, where that is expected to be faster, and their tasks.

    Args:
        mod: module of `to_symbolic_relax`.
        ranges: smallest and largest size of each symbol, by its name.
        target: a CPU.
        lowering: its `attention` is off or auto.
    """
    dtype = lowering.dtype
    instructions = [one for one in target_instructions(target, dtype, dtype, WIDE) if not one.tiles]
    symbols = symbols_of(mod["main"])
    exponentials = any("exp" in intrinsics(f) for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    if lowering.attention == OFF or not instructions or not symbols or not exponentials:
        return mod, []
    ranges = {name: ranges[name] for name in symbols}
    chains = _chains(mod, ranges, dtype)
    made = [(one, _function(one, ranges, instructions, target_cores(target))) for one in chains]
    chosen = [(chain, function) for chain, function in made if function is not None]
    if not chosen:
        return mod, []
    replacer = _AttentionCalls(mod, list(symbols.values()))
    names = [replacer.add(chain, function) for chain, function in chosen]
    return replacer.module(), [FamilyTask(name, ATTENTION) for name in names]


@dataclass(frozen=True)
class _Chain:
    """An attention with all of its places in the network."""

    places: tuple[tuple[int, ...], ...]
    """Numbers of the bindings that each place replaces, in order."""
    inputs: tuple[tuple[tuple[int, int], ...], ...]
    """Each input of the function at each place: number of a binding that reads it, and of its argument."""
    sources: tuple[int, ...]
    """Input that is the query, key, value and mask."""
    example: BlockedAttention
    numbers: Mapping[tuple[str, ...], Polynomial]
    shapes: tuple[tuple[Polynomial, ...], ...]
    """Shape of each input and of the output."""

    def problem(self, value_of: Any) -> BlockedAttention:
        """The attention with `value_of` each polynomial as its extents and strides."""

        def layout(name: str) -> Layout | None:
            if getattr(self.example, name) is None:
                return None
            return Layout(0, *(value_of(self.numbers[name, stride]) for stride in _STRIDES))

        sizes = {name: value_of(self.numbers[(name,)]) for name in _SIZES}
        changes: dict[str, Any] = {**sizes, **{name: layout(name) for name in _LAYOUTS}}
        return replace(self.example, **changes)


def _chains(mod: tvm.IRModule, ranges: Mapping[str, Ends], dtype: str) -> list[_Chain]:
    """Attention that copies of the network have at the same places, of arrays in float32 or `dtype`."""
    samples = sampled_sizes(ranges)
    found: list[dict[Any, Found]] = []
    for sizes in samples:
        copy = bound(mod, sizes)
        found.append(_by_places(copy, dtype))
        if not found[0]:
            return []
    made = [
        _chain(key, [one[key] for one in found], samples)
        for key in found[0]
        if all(key in others for others in found)
    ]
    return [one for one in made if one is not None]


def _by_places(copy: tvm.IRModule, dtype: str) -> dict[Any, Found]:
    """Attention of a copy by its places and inputs, as `_Chain` has them."""
    numbers = {var: number for number, (var, _) in enumerate(relax_bindings(copy["main"]))}
    values = [value for _, value in relax_bindings(copy["main"])]

    def reader(calls: Sequence[int], wanted: relax.Expr) -> tuple[int, int]:
        return next(
            (call, index)
            for call in calls
            for index, argument in enumerate(values[call].args[1].fields)
            if argument.same_as(wanted)
        )

    keys = {}
    for one in found_attention(copy, dtype):
        places = tuple(tuple(numbers[var] for var in place.calls) for place in one.chain.places)
        inputs = tuple(
            tuple(reader(calls, place.inputs[index]) for index in one.inputs)
            for calls, place in zip(places, one.chain.places, strict=True)
        )
        keys[places, inputs] = one
    return keys


def _chain(key: Any, found: Sequence[Found], samples: Sequence[Mapping[str, int]]) -> _Chain | None:
    """The attention of all copies; None if they differ in more than their sizes."""
    places, inputs = key
    example = found[0].problem
    if any(_kind(one) != _kind(found[0]) for one in found):
        return None

    def polynomial(value_of: Any) -> Polynomial | None:
        return fitted(samples, [value_of(one) for one in found])

    numbers: dict[tuple[str, ...], Any] = {}
    for name in _SIZES:
        numbers[(name,)] = polynomial(lambda one, name=name: getattr(one.problem, name))
    for name in _LAYOUTS:
        for stride in _STRIDES if getattr(example, name) is not None else ():
            numbers[name, stride] = polynomial(
                lambda one, name=name, stride=stride: getattr(getattr(one.problem, name), stride)
            )
    shapes: list[list[Any]] = [
        [polynomial(lambda one, at=at, axis=axis: one.shapes[at][axis]) for axis in range(len(shape))]
        for at, shape in enumerate(found[0].shapes)
    ]
    if None in numbers.values() or any(None in shape for shape in shapes):
        return None
    return _Chain(places, inputs, found[0].sources, example, numbers, tuple(map(tuple, shapes)))


def _kind(found: Found) -> tuple[Any, ...]:
    """Properties that all copies of one attention have in common."""
    problem = found.problem
    ranks = tuple(map(len, found.shapes))
    return problem.width, problem.scale, problem.zeros, problem.mask is None, found.sources, ranks


def _function(
    chain: _Chain, ranges: Mapping[str, Ends], instructions: Sequence[Instruction], cores: int
) -> tirx.PrimFunc | None:
    """The function of an attention, if it is expected to be faster than separate ones."""
    at_sizes = [
        chain.problem(
            lambda one, place=place: one.at({name: size_at(*ends, place) for name, ends in ranges.items()})
        )
        for place in ANCHORS
    ]
    largest = chain.problem(lambda one: one.at({name: high for name, (_, high) in ranges.items()}))
    first, second = ASSUMED_CACHES

    def mean(of: Any) -> float:
        return fmean(log(of(problem)) for problem in at_sizes)

    def own(blocks: Blocks) -> float:
        return mean(lambda problem: symbolic_cycles(problem, blocks, first, cores))

    candidates = attention_blocks(largest, instructions, None, cores)
    if not candidates:
        return None
    blocks = min(candidates, key=own)
    calls = _CALL * (len(chain.places[0]) - 1)
    separate = mean(lambda one: separate_cycles(one, blocks.instruction, second, cores) + calls)
    if exp(separate - own(blocks)) < LEAST_GAIN:
        return None
    symbols = {name: tirx.Var(name, INDEX) for name in ranges}
    return symbolic_attention_function(
        chain.problem(lambda one: one.expression(symbols)),
        blocks,
        [[number(one.expression(symbols)) for one in shape] for shape in chain.shapes],
        chain.sources,
        list(symbols.values()),
    )


@mutator
class _AttentionCalls(PyExprMutator):
    """Calls a function in place of the last call of an attention; the others are left without a reader."""

    def __init__(self, mod: tvm.IRModule, symbols: Sequence[Any]) -> None:
        super().__init__(mod)
        self._mod, self._symbols = mod, symbols
        self._bindings = list(relax_bindings(mod["main"]))
        self._replacing: dict[relax.Var, tuple[tvm.ir.GlobalVar, list[relax.Expr]]] = {}

    def add(self, chain: _Chain, function: tirx.PrimFunc) -> str:
        """Lets the places of a chain call the function; returns its name."""
        callee = self.builder_.add_func(function, f"fused_{ATTENTION}")
        for calls, inputs in zip(chain.places, chain.inputs, strict=True):
            arguments = [self._bindings[call][1].args[1].fields[index] for call, index in inputs]
            self._replacing[self._bindings[calls[-1]][0]] = callee, arguments
        return str(callee.name_hint)

    def module(self) -> tvm.IRModule:
        """The changed module, without functions that nothing calls."""
        mod = self.builder_.get()
        (main,) = (var for var in mod.get_global_vars() if var.name_hint == "main")
        self.builder_.update_func(main, self.visit_expr(self._mod["main"]))
        return relax.transform.DeadCodeElimination(["main"])(self.builder_.get())

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Binds the variable of the last call to the result of the function."""
        if binding.var not in self._replacing:
            super().visit_var_binding_(binding)
            return
        callee, arguments = self._replacing[binding.var]
        given = [self.visit_expr(one) for one in arguments]
        call = relax.call_tir(callee, [*given, *self._symbols], binding.var.ty)
        self.builder_.emit_normalized(relax.VarBinding(binding.var, self.builder_.normalize(call)))
