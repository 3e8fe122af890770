"""Attention as one function, as an alternative to its products, softmax and transpositions.

The function keeps the scores in cache (`templates.cpu.attention`). It is offered in float32 and bfloat16, on
a CPU whose vectors have a multiply-add of this type with sums in float32. Calls that are attention are found
as for GPUs (`call_chains`), and a few rows of their output are compared with the attention that they are
recognised as.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tvm
from tvm import relax
from tvm.target import Target

from ...instruction_sets import Instruction
from ...operators.shared.tir import extents
from ...targets import is_cpu, target_instructions
from ...templates.cpu.attention.attention import BlockedAttention
from ...templates.cpu.attention.attention_kernel import attention_function
from ...templates.cpu.attention.choice import attention_blocks, cycles, separate_cycles
from ...templates.cpu.attention.recognition import recognised
from ...templates.cpu.chains.chain_template import ASSUMED_CACHES
from ...templates.gpu import attention as gpu
from ...templates.gpu.attention_matching import read_attention
from ...templates.gpu.matching import Match
from ...templates.gpu.problem import DTYPES, NOTHING, GpuTemplateError
from ...tvm_compat import target_cores
from ...types import WIDE, data_type
from ..lowering.lowering import OFF, Lowering
from .alternatives import Alternative, Arguments, Piece, Run, Site
from .call_chains import CallChain, call_chains

LEAST_OFFERED, LEAST_GAIN = 0.9, 1.05
"""Least expected speed-up that is offered, for measurements to decide, and that decides without them."""

_HIDDEN = -1e30
"""Largest value of a mask that hides a key, if the row has another key."""


def attention_alternatives(mod: tvm.IRModule, target: Target, lowering: Lowering) -> list[Alternative]:
    """Alternatives where `lowering.attention` asks for them, in data types whose products sum in float32."""
    if lowering.attention == OFF or not is_cpu(target):
        return []
    instructions = target_instructions(target, lowering.dtype, lowering.dtype, WIDE)
    if all(one.tiles for one in instructions):
        return []
    made = (
        _alternative(one, instructions, target_cores(target)) for one in found_attention(mod, lowering.dtype)
    )
    return [alternative for alternative in made if alternative is not None]


@dataclass(frozen=True, eq=False)
class Found:
    """Calls that are attention."""

    chain: CallChain
    problem: BlockedAttention
    inputs: tuple[int, ...]
    """Inputs of the joined function that attention reads."""
    sources: tuple[int, ...]
    """Place among `inputs` of query, key, value and, with a mask, of the mask."""

    @property
    def shapes(self) -> list[list[int]]:
        """Shape of each of `inputs`, and of the output."""
        params = self.chain.function.params
        return [extents(params[number]) for number in (*self.inputs, len(params) - 1)]


def found_attention(mod: tvm.IRModule, dtype: str) -> list[Found]:
    """The attention of a module of `to_relax` whose arrays are float32, or `dtype`."""
    read = partial(_read, {data_type(one).triton for one in (WIDE, dtype)})
    return [_found(chain) for chain in call_chains(mod, read, (gpu.Attention,))]


def _found(chain: CallChain) -> Found:
    assert isinstance(chain.match, _CpuMatch)
    *inputs, _ = chain.match.parameters
    numbers = tuple(dict.fromkeys(inputs))
    sources = tuple(numbers.index(number) for number in inputs)
    return Found(chain, chain.match.attention, numbers, sources)


@dataclass(frozen=True)
class _CpuMatch(Match):
    """Calls that are attention, as a kernel for CPUs computes it."""

    attention: BlockedAttention


def _read(dtypes: Collection[str], task: tvm.IRModule) -> Match | None:
    """The attention that `main` is, None for anything else. `dtypes` are those of its arrays."""
    try:
        found = read_attention(task)
    except GpuTemplateError:  # heads of many columns
        return None
    if found is None:
        return None
    seen, parameters = found
    query, key, value, mask, output = seen.layouts
    if not {seen.dtype, seen.output, seen.mask} <= {*dtypes, NOTHING}:
        return None
    problem = BlockedAttention(
        batch=seen.batch,
        heads=seen.heads,
        queries=seen.queries,
        keys=seen.keys,
        width=seen.width,
        scale=seen.scale,
        query=query,
        key=key,
        value=value,
        output=output,
        mask=None if seen.mask == NOTHING else mask,
        dtype=DTYPES[seen.dtype],
        mask_dtype=DTYPES.get(seen.mask, WIDE),
        output_dtype=DTYPES[seen.output],
    )
    attention = recognised(task, problem, parameters)
    return None if attention is None else _CpuMatch(seen, parameters, attention)


def _alternative(found: Found, instructions: Sequence[Instruction], cores: int) -> Alternative | None:
    """The chain as one function, if that is expected to be faster.

    The closed form does not know tiles of AMX: if separate products have them, only measurements decide.
    """
    chain = found.chain
    problem = replace(found.problem, ahead=_ahead(chain))
    blocks = next(iter(attention_blocks(problem, instructions, None, cores)), None)
    if blocks is None:
        return None
    first, second = ASSUMED_CACHES
    own = cycles(problem, blocks, first, cores)
    gain = separate_cycles(problem, blocks.instruction, second, cores) / own
    if gain < LEAST_OFFERED:
        return None
    return Alternative(
        kind="attention in blocks",
        piece=Piece(
            chain.names,
            chain.replaces,
            (chain.function,),
            tuple(Site(place.calls, (place.inputs,)) for place in chain.places),
        ),
        functions=(attention_function(problem, blocks, found.shapes, found.sources),),
        names=("fused_attention",),
        compute=_Call(found.inputs),
        gain=None if gain < LEAST_GAIN or any(one.tiles for one in instructions) else gain,
    )


class _Call:
    """Call of the function with the arrays that it reads."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers

    def __call__(self, arguments: Sequence[Arguments], run: Run) -> relax.Expr:
        (given,) = arguments
        return run(0, [given[number] for number in self._numbers])


def _ahead(chain: CallChain) -> int | None:
    """See `BlockedAttention.ahead`: the largest one of all places, if their masks are constants."""
    assert isinstance(chain.match, _CpuMatch)
    problem = chain.match.attention
    if problem.mask is None or problem.mask.batch or problem.mask.head:
        return None
    rows, keys = np.arange(problem.queries), np.arange(problem.keys)
    largest = 0
    for place in chain.places:
        mask = place.inputs[chain.match.parameters[3]]
        if not isinstance(mask, tvm.ir.GenericConst):
            return None
        values = mask.value.numpy().ravel()
        at = problem.mask.start + rows[:, None] * problem.mask.row + keys
        visible = values[at] > _HIDDEN
        if not visible.any(axis=1).all():
            return None
        largest = max(largest, int((np.where(visible, keys, 0).max(axis=1) - rows).max()))
    return largest if largest < problem.keys - 1 else None
