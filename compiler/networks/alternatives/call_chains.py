"""Calls that one template computes together: attention, and on GPUs a product followed by layer norm.

Each chain of calls is joined to one function, in which `templates.gpu.matching` recognises the problem. The
network keeps the calls unless the template is faster than all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import relax, te, tirx, topi
from tvm.relax.analysis import has_reshape_pattern
from tvm.tirx import PrimFunc

from ...templates.cpu.contraction import blocks_of, is_product
from ...templates.gpu.attention import Attention
from ...templates.gpu.matching import Match, matched
from ...templates.gpu.problem import Problem
from ...templates.gpu.row_matching import intrinsics, layer_epsilon
from ...templates.gpu.rows import NormedProduct
from ...tvm_compat import as_task_module, workload_hash
from ..lowering.fused_function import joined_function
from .alternatives import calls_of

Read = Callable[[tvm.IRModule], Match | None]
"""What a template computes of a task; see `matched`."""


_Joined = tuple[PrimFunc, str, Match]
"""A joined function, its workload hash, and the problem that it is."""


@dataclass(frozen=True, eq=False)
class Place:
    """One place of a chain in a network."""

    calls: tuple[relax.Var, ...]
    """What the calls are bound to, in order."""
    inputs: tuple[relax.Expr, ...]
    """Arguments of the joined function."""


@dataclass(frozen=True, eq=False)
class CallChain:
    """Calls that are one problem of a template, with all places that have the same ones."""

    name: str
    workload: str
    """Workload hash of the joined function."""
    function: PrimFunc
    match: Match
    replaces: tuple[str, ...]
    """Workload hash of each call but views, in order."""
    names: tuple[str, ...]
    """Names of the functions of these calls."""
    places: tuple[Place, ...]


def call_chains(
    mod: tvm.IRModule,
    read: Read = matched,
    problems: Sequence[type[Problem]] = (Attention, NormedProduct),
) -> list[CallChain]:
    """Chains of a module of `to_relax` that are one of these problems. No two have a call in common."""
    found: dict[str, CallChain] = {}
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            for chain in _Calls(mod, function, read).chains(problems):
                known = found.get(chain.workload)
                found[chain.workload] = (
                    chain if known is None else replace(known, places=(*known.places, *chain.places))
                )
    return list(found.values())


class _Calls:
    """Calls of TIR functions in one Relax function."""

    def __init__(self, mod: tvm.IRModule, function: relax.Function, read: Read) -> None:
        self._mod, self._read = mod, read
        self._calls = calls_of(function)
        self._users = {
            var: list(users)
            for block in function.body.blocks
            if isinstance(block, relax.DataflowBlock)
            for var, users in relax.analysis.udchain(block).items()
        }
        self._kinds: dict[str, _Kind] = {}
        self._joined: dict[object, _Joined | None] = {}

    def chains(self, problems: Sequence[type[Problem]]) -> Iterator[CallChain]:
        """Attention first: the remaining products may be followed by a layer norm."""
        taken: set[relax.Var] = set()
        finders = {Attention: self._attention, NormedProduct: self._normed}
        for problem in problems:
            candidates = finders[problem]
            for var in self._calls:
                chain = candidates(var)
                if chain and taken.isdisjoint(chain):
                    made = self._made(chain)
                    if made is not None and isinstance(made.match.problem, problem):
                        taken.update(chain)
                        yield made

    def _attention(self, last: relax.Var) -> list[relax.Var]:
        """Calls around the product of weights and values that `last` is bound to."""
        if not self._kind(last).multiplies:
            return []
        for weights in self._arguments(last):
            between = self._between(weights)
            if between is None:
                continue
            region = {last, *between}
            factors = [a for a in self._arguments(last) if not a.same_as(weights)]
            first = next(var for var in between if self._kind(var).multiplies)
            for factor in (*factors, *self._arguments(first)):
                while factor in self._calls and self._only_moves(factor) and self._inside(factor, region):
                    region.add(factor)
                    (factor,) = self._arguments(factor)
            result = last
            while (after := self._only_user(result)) is not None and self._only_moves(after):
                region.add(after)
                result = after
            inner = region - {result}
            if all(self._inside(var, region) for var in inner):
                return [var for var in self._calls if var in region]
        return []

    def _between(self, weights: relax.Expr) -> list[relax.Var] | None:
        """Calls from a product to the weights, an exponential among them; None without."""
        found: list[relax.Var] = []
        exponential, ends, waiting = False, [], [weights]
        while waiting:
            var = waiting.pop()
            if var not in self._calls or var in found:
                continue
            found.append(var)
            kind = self._kind(var)
            exponential = exponential or kind.exponential
            if kind.multiplies:
                ends.append(var)
            else:
                waiting += self._arguments(var)
        if not exponential or len(ends) != 1:
            return None
        # What does not depend on the product, such as a mask's making, stays outside.
        depend = {ends[0]}
        for var in self._calls:
            if var in found and any(argument in depend for argument in self._arguments(var)):
                depend.add(var)
        return [var for var in self._calls if var in depend]

    def _normed(self, first: relax.Var) -> list[relax.Var]:
        """A product, views of its result, and a layer norm."""
        if not self._kind(first).multiplies:
            return []
        chain = [first]
        while (after := self._only_user(chain[-1])) is not None:
            chain.append(after)
            kind = self._kind(after)
            if kind.layer_norm:
                return chain
            if not kind.view:
                break
        return []

    def _made(self, chain: Sequence[relax.Var]) -> CallChain | None:
        """The chain as one function, or None if no template computes it."""
        inputs: list[relax.Expr] = []
        functions: list[PrimFunc] = []
        arguments: list[list[int]] = []
        made: dict[relax.Var, int] = {}
        for var in chain:
            own = []
            for argument in self._arguments(var):
                if argument in made:
                    own.append(~made[argument])
                elif (zeros := _zeros(argument)) is not None:
                    functions.append(zeros)
                    arguments.append([])
                    own.append(~(len(functions) - 1))
                else:
                    known = (n for n, other in enumerate(inputs) if other.same_as(argument))
                    own.append(next(known, len(inputs)))
                    if own[-1] == len(inputs):
                        inputs.append(argument)
            made[var] = len(functions)
            functions.append(self._mod[self._calls[var].args[0]])
            arguments.append(own)
        callees = [self._calls[var].args[0] for var in chain]
        key = tuple(callee.name_hint for callee in callees), tuple(map(tuple, arguments))
        if key not in self._joined:
            self._joined[key] = self._read_joined(functions, arguments)
        joined = self._joined[key]
        if joined is None:
            return None
        function, workload, match = joined
        replaced = [callee for callee in callees if not self._kind_of(callee).view]
        return CallChain(
            name=f"fused_{match.problem.kernel}{'_norm' if isinstance(match.problem, NormedProduct) else ''}",
            workload=workload,
            function=function,
            match=match,
            replaces=tuple(workload_hash(as_task_module(self._mod[callee])) for callee in replaced),
            names=tuple(callee.name_hint for callee in replaced),
            places=(Place(tuple(chain), tuple(inputs)),),
        )

    def _read_joined(
        self, functions: Sequence[PrimFunc], arguments: Sequence[Sequence[int]]
    ) -> _Joined | None:
        """The calls as one function, or None if TVM cannot join them or no template computes them."""
        try:
            function = joined_function(functions, arguments)
        except tvm.error.InternalError:  # for example, if a function has loops outside blocks
            return None
        task = as_task_module(function)
        match = self._read(task)
        return None if match is None else (function, workload_hash(task), match)

    def _arguments(self, var: relax.Var) -> list[relax.Expr]:
        return list(self._calls[var].args[1].fields)

    def _inside(self, var: relax.Var, region: set[relax.Var]) -> bool:
        """Whether nothing outside reads a result."""
        return all(user in region for user in self._users.get(var, [None]))

    def _only_user(self, var: relax.Var) -> relax.Var | None:
        """The only call that reads a result, which nothing else reads; None without."""
        users = self._users.get(var, [])
        return users[0] if len(users) == 1 and users[0] in self._calls else None

    def _only_moves(self, var: relax.Var) -> bool:
        kind = self._kind(var)
        return not (kind.multiplies or kind.reduces) and len(self._arguments(var)) == 1

    def _kind(self, var: relax.Var) -> _Kind:
        return self._kind_of(self._calls[var].args[0])

    def _kind_of(self, callee: tvm.ir.GlobalVar) -> _Kind:
        name = callee.name_hint
        if name not in self._kinds:
            self._kinds[name] = _kind(self._mod[callee])
        return self._kinds[name]


@dataclass(frozen=True)
class _Kind:
    """Kind of a function, by its blocks."""

    multiplies: bool
    """Adds up products of two arrays."""
    reduces: bool
    exponential: bool
    layer_norm: bool
    view: bool
    """A plain reshape, which becomes a view and is never a task."""


def _kind(function: PrimFunc) -> _Kind:
    reductions = [block for block in blocks_of(as_task_module(function)) if block.init is not None]
    return _Kind(
        multiplies=any(map(is_product, reductions)),
        reduces=bool(reductions),
        exponential="exp" in intrinsics(function),
        layer_norm=layer_epsilon(function) is not None,
        view=has_reshape_pattern(function),
    )


def _zeros(argument: relax.Expr) -> PrimFunc | None:
    """A function that fills an array with zeros, if the argument is a constant of zeros with 3 axes or more.

    An example is a mask that hides nothing: no kernel needs to read it.
    """
    if not isinstance(argument, tvm.ir.GenericConst) or len(argument.value.shape) < 3:
        return None
    if argument.value.numpy().astype("float32").any():
        return None
    shape = [tirx.IntImm("int64", int(extent)) for extent in argument.value.shape]
    return te.create_prim_func([topi.full(shape, str(argument.value.dtype), 0.0)])
