"""Kinds of alternatives that a lowering may ask for."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm.target import Target

from ..lowering.lowering import Lowering
from .alternatives import Alternative
from .attention import attention_alternatives
from .fusion import fusion_alternatives
from .winograd import winograd_alternatives

KINDS: tuple[Callable[[tvm.IRModule, Target, Lowering], list[Alternative]], ...] = (
    winograd_alternatives,
    fusion_alternatives,
    attention_alternatives,
)
"""Each finds its alternatives in a module of `to_relax`; none if the lowering asks for none."""


def find_alternatives(relax_mod: tvm.IRModule, target: Target, lowering: Lowering) -> list[Alternative]:
    """Alternatives of a module from `to_relax`, by the lowering that made it."""
    return [alternative for kind in KINDS for alternative in kind(relax_mod, target, lowering)]
