"""Schedule of a kernel of attention, whose blocks are already in place: threads share its tiles."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.s_tir.schedule import Schedule

from ....task import ATTENTION_BLOCKS
from ..contraction import blocks_of


@dataclass(frozen=True)
class AttentionTemplate:
    """The one schedule of a kernel of attention."""


def is_attention(mod: tvm.IRModule) -> bool:
    """Whether `main` is a kernel of attention."""
    return tuple(block.name_hint for block in blocks_of(mod)) == ATTENTION_BLOCKS


def apply_attention(sch: Schedule) -> None:
    """Schedules `main` of `sch`."""
    for name in ATTENTION_BLOCKS:
        (loop,) = sch.get_loops(sch.get_sblock(name))
        sch.parallel(loop)
