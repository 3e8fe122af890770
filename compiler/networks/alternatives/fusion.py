"""Back-to-back fusion as an alternative for calls in a row (Bolt, section 3.1.1).

Two or three functions that follow each other are offered as one if they are a chain (`templates.chain`): a
product of matrices or a convolution, and products or convolutions of 1x1 after it; a depthwise convolution
and one of 1x1; or an inverted residual, whose expansion, depthwise convolution and projection are all fused.
What they have between them must stay within the second cache for a block of rows
(`templates.chain_template`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
from tvm import relax
from tvm.target import Target

from ...targets import is_cpu, target_instructions
from ...templates.cpu.chains.chain import read_chain
from ...templates.cpu.chains.chain_template import chain_templates
from ...templates.cpu.contraction import blocks_of
from ...tvm_compat import as_task_module, target_cores
from ..lowering.fused_function import fused_function
from ..lowering.lowering import OFF, Lowering
from .alternatives import Alternative, Arguments, Piece, Run, pieces

LENGTHS = 3, 2
"""Calls that are fused, the longer chains first."""


def fusion_alternatives(mod: tvm.IRModule, target: Target, lowering: Lowering) -> list[Alternative]:
    """Alternatives where `lowering.fusion` asks for them; none off a CPU."""
    if lowering.fusion == OFF or not is_cpu(target):
        return []
    return [
        alternative
        for length in LENGTHS
        for piece in pieces(mod, length)
        for alternative in _alternatives(piece, target)
    ]


def _alternatives(piece: Piece, target: Target) -> Iterator[Alternative]:
    """The fused function of a piece, if there is a template for it."""
    reads = _reads(piece)
    if reads is None or any(_reductions(function) != 1 for function in piece.functions):
        return
    function = fused_function(piece.functions, reads)
    chain = read_chain(as_task_module(function))
    if chain is None:
        return
    instructions = target_instructions(target, *chain.types)
    if not chain_templates(chain, instructions, None, target_cores(target)):
        return
    yield Alternative(
        kind="back-to-back fusion",
        piece=piece,
        functions=(function,),
        names=(f"{piece.names[0]}_back_to_back{len(piece.names)}",),
        compute=_JoinedCall(reads),
    )


class _JoinedCall:
    """One call with the arguments of all."""

    def __init__(self, reads: Sequence[int]) -> None:
        self._reads = reads

    def __call__(self, arguments: Sequence[Arguments], run: Run) -> relax.Expr:
        first, *others = arguments
        given = list(first)
        for index, own in zip(self._reads, others, strict=True):
            given += [argument for place, argument in enumerate(own) if place != index]
        return run(0, given)


def joined_arguments(alternative: Alternative, arguments: Sequence[Arguments]) -> Arguments:
    """Arguments of the fused function, from those of the calls that it replaces."""
    found: list[Arguments] = []

    def run(_: int, given: Sequence[relax.Expr]) -> relax.Expr:
        found.append(tuple(given))
        return given[0]

    alternative.compute(arguments, run)
    return found[0]


def _reads(piece: Piece) -> tuple[int, ...] | None:
    """Index of the argument of each call but the first that is the result of the one before.

    None where places differ in it, or a call reads the result in two arguments.
    """
    found = set()
    for site in piece.sites:
        own = []
        for result, arguments in zip(site.results, site.arguments[1:], strict=False):
            places = [index for index, argument in enumerate(arguments) if argument.same_as(result)]
            if len(places) != 1:
                return None
            own += places
        found.add(tuple(own))
    return found.pop() if len(found) == 1 else None


def _reductions(function: tvm.tirx.PrimFunc) -> int:
    """Number of blocks that reduce."""
    return sum(block.init is not None for block in blocks_of(as_task_module(function)))
