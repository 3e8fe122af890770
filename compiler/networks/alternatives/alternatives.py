"""Alternatives: other ways to compute pieces of a network, of which the fastest is taken once all are tuned.

A piece is one call of a fused function, or several calls in a row. An alternative replaces it by calls of
functions of its own, with constants that it makes of those of the piece. Its functions are tasks like any
other; which way the network takes is decided by measured latencies, after tuning.

A new kind of alternative is a function from a lowered module to its alternatives, listed in
`alternative_kinds`; `pieces` finds the calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.relax.analysis import has_reshape_pattern
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import PrimFunc

from ...described_task import described_task
from ...task import ALTERNATIVE, Task
from ...tvm_compat import as_task_module, workload_hash
from ..lowering.fused_function import kind_of

CALL_TIR = tvm.ir.Op.get("relax.call_tir")

Arguments: TypeAlias = tuple[relax.Expr, ...]
"""Arguments of one call; a constant is a `tvm.ir.GenericConst`."""

Run: TypeAlias = Callable[[int, Sequence[relax.Expr]], relax.Expr]
"""Emits a call of an alternative's function, by its number, with these arguments; returns the result."""


@dataclass(frozen=True, eq=False)
class Site:
    """One place of a piece in a network."""

    results: tuple[relax.Var, ...]
    """Variables that the calls are bound to, in order."""
    arguments: tuple[Arguments, ...]
    """Arguments of each call."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Calls in a row, with all places that have the same ones. Nothing else reads the values between them."""

    names: tuple[str, ...]
    """Names of the functions that the first place calls, in order."""
    workloads: tuple[str, ...]
    """Workload hash of each function."""
    functions: tuple[PrimFunc, ...]
    sites: tuple[Site, ...]


@dataclass(frozen=True)
class Offer:
    """An alternative as far as tuning and choosing need it; it holds neither module nor weights."""

    name: str
    """The kind, and the function that it replaces: `Winograd F(4x4, 3x3) of fused_conv2d_add`."""
    replaces: tuple[str, ...]
    """Workload hash of each replaced call, in order."""
    replaced: tuple[str, ...]
    """Names of the replaced tasks, in the same order."""
    tasks: tuple[Task, ...]
    """Tasks of the calls that replace them, in order, each of weight 0."""
    calls: int
    """Places in the network that it would replace."""
    gain: float | None = None
    """Expected latency of what it replaces over its own: says which is searched first, and decides for
    networks that are tuned without a measurement. None if only a measurement decides."""


@dataclass(frozen=True, eq=False)
class Alternative:
    """Another way to compute a piece of a network."""

    kind: str
    """Name of the algorithm, such as `Winograd F(4x4, 3x3)`."""
    piece: Piece
    functions: tuple[PrimFunc, ...]
    """Functions that take the piece's place, each with one output, its last parameter."""
    names: tuple[str, ...]
    """Names of the functions in the network."""
    compute: Callable[[Sequence[Arguments], Run], relax.Expr]
    """Emits the calls at one place, from the arguments of the replaced calls; returns the piece's result."""
    gain: float | None = None
    """See `Offer.gain`."""

    @cached_property
    def offer(self) -> Offer:
        """The alternative as far as tuning needs it."""
        modules = [as_task_module(function) for function in self.functions]
        return Offer(
            name=f"{self.kind} of {', '.join(self.piece.names)}",
            replaces=self.piece.workloads,
            replaced=self.piece.names,
            tasks=tuple(
                replace(described_task(mod, name, source=ALTERNATIVE), weight=0)
                for mod, name in zip(modules, self.names, strict=True)
            ),
            calls=len(self.piece.sites),
            gain=self.gain,
        )


def pieces(mod: tvm.IRModule, length: int = 1) -> list[Piece]:
    """All pieces of `length` calls in a row, in the order of their first places.

    A call follows another if it reads its result, which nothing else reads. Places of one piece have no call
    in common: of three equal calls in a row, the first two are a piece of two. `mod` is one of `to_relax`.
    """
    hashes = _Hashes(mod)
    found: dict[tuple[str, ...], Piece] = {}
    for function in mod.functions.values():
        if not isinstance(function, relax.Function):
            continue
        every = calls_of(function)
        # Plain reshapes are no tasks: compiled, they are views.
        calls = {var: call for var, call in every.items() if not has_reshape_pattern(mod[call.args[0]])}
        readers = _readers(function)
        for last in calls:
            chain = [last]
            while len(chain) < length and (before := _before(chain[0], calls, readers)) is not None:
                chain.insert(0, before)
            if len(chain) < length:
                continue
            callees = [calls[var].args[0] for var in chain]
            workloads = tuple(hashes[callee] for callee in callees)
            arguments = tuple(tuple(calls[var].args[1].fields) for var in chain)
            site = Site(tuple(chain), arguments)
            known = found.get(workloads)
            if known is None:
                names = tuple(callee.name_hint for callee in callees)
                functions = tuple(mod[callee] for callee in callees)
                found[workloads] = Piece(names, workloads, functions, (site,))
            elif not any(set(chain) & set(other.results) for other in known.sites):
                found[workloads] = replace(known, sites=(*known.sites, site))
    return list(found.values())


def merged_offers(of_networks: Sequence[Sequence[Offer]]) -> list[Offer]:
    """Offers of several networks, each once, with the sum of its places."""
    found: dict[tuple[tuple[str, ...], ...], Offer] = {}
    for offer in (offer for own in of_networks for offer in own):
        key = offer.replaces, tuple(task.workload_hash for task in offer.tasks)
        known = found.get(key)
        found[key] = offer if known is None else replace(known, calls=known.calls + offer.calls)
    return list(found.values())


def offered_tasks(tasks: Sequence[Task], offers: Sequence[Offer]) -> list[Task]:
    """Tasks of the offers, each once, without tasks that are among `tasks`."""
    own = {task.workload_hash for task in tasks}
    found = {task.workload_hash: task for offer in offers for task in offer.tasks}
    return [task for name, task in found.items() if name not in own]


def places(chosen: Sequence[Alternative]) -> list[list[Site]]:
    """Places where each of these is taken; one goes to the first alternative that has any of its calls."""
    taken: set[relax.Var] = set()
    found = []
    for alternative in chosen:
        found.append([site for site in alternative.piece.sites if taken.isdisjoint(site.results)])
        taken.update(var for site in found[-1] for var in site.results)
    return found


def with_alternatives(mod: tvm.IRModule, chosen: Sequence[Alternative]) -> tvm.IRModule:
    """The module with `places` of these alternatives replaced, and without functions that nothing calls."""
    if not chosen:
        return mod
    replacer = _Replacer(mod)
    for alternative, sites in zip(chosen, places(chosen), strict=True):
        replacer.add(alternative, sites)
    entries = {var: f for var, f in mod.functions_items() if isinstance(f, relax.Function)}
    rewritten = {var: replacer.visit_expr(function) for var, function in entries.items()}
    changed = tvm.IRModule({**replacer.builder_.get().functions, **rewritten}, attrs=mod.attrs)
    names = [var.name_hint for var in entries]
    passes = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination(names)]
    return tvm.transform.Sequential(passes)(changed)


def call_counts(mod: tvm.IRModule) -> Counter[str]:
    """Calls of each workload in one run of the network, by workload hash."""
    hashes = _Hashes(mod)
    counts: Counter[str] = Counter()
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            counts.update(hashes[call.args[0]] for call in calls_of(function).values())
    return counts


class _Hashes:
    """Workload hashes of a module's functions, each computed once."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self._mod = mod
        self._found: dict[str, str] = {}

    def __getitem__(self, callee: tvm.ir.GlobalVar) -> str:
        name = callee.name_hint
        if name not in self._found:
            self._found[name] = workload_hash(as_task_module(self._mod[callee]))
        return self._found[name]


def calls_of(function: relax.Function) -> dict[relax.Var, relax.Call]:
    """Calls of TIR functions by the variables that they are bound to, in order."""
    return {
        binding.var: binding.value
        for block in function.body.blocks
        for binding in block.bindings
        if isinstance(binding, relax.VarBinding)
        and isinstance(binding.value, relax.Call)
        and binding.value.op.same_as(CALL_TIR)
        and isinstance(binding.value.args[1], relax.Tuple)
    }


def _readers(function: relax.Function) -> dict[relax.Var, int]:
    """Number of bindings that read each variable; only of variables read in their own block alone."""
    return {
        var: len(users)
        for block in function.body.blocks
        if isinstance(block, relax.DataflowBlock)
        for var, users in relax.analysis.udchain(block).items()
        if isinstance(var, relax.DataflowVar)
    }


def _before(
    var: relax.Var, calls: Mapping[relax.Var, relax.Call], readers: Mapping[relax.Var, int]
) -> relax.Var | None:
    """The call whose result only this one reads, the first of its arguments that is one; None without."""
    arguments = calls[var].args[1].fields
    return next((a for a in arguments if a in calls and readers.get(a) == 1), None)


@mutator
class _Replacer(PyExprMutator):
    """Computes pieces by alternatives. The calls before a piece's last one are left without a reader."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._replacing: dict[relax.Var, tuple[Alternative, Site, list[tvm.ir.GlobalVar]]] = {}

    def add(self, alternative: Alternative, sites: Sequence[Site]) -> None:
        """Lets these places be computed by an alternative."""
        if not sites:
            return
        named = zip(alternative.functions, alternative.names, strict=True)
        callees = [self.builder_.add_func(function, name) for function, name in named]
        for site in sites:
            self._replacing[site.results[-1]] = alternative, site, callees

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Binds the variable of a piece's last call to the alternative's result."""
        if binding.var not in self._replacing:
            super().visit_var_binding_(binding)
            return
        alternative, site, callees = self._replacing[binding.var]

        def run(number: int, arguments: Sequence[relax.Expr]) -> relax.Expr:
            output = alternative.functions[number].params[-1]
            call = relax.call_tir(callees[number], list(arguments), kind_of(output))
            return self.builder_.emit(call)

        arguments = [tuple(self.visit_expr(argument) for argument in call) for call in site.arguments]
        result = alternative.compute(arguments, run)
        self.builder_.emit_normalized(relax.VarBinding(binding.var, result))
