"""Schedule of a kernel of attention, whose blocks are already in place: threads share its tiles."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.s_tir.schedule import Schedule

from ..contraction import blocks_of
from .attention_kernel import ATTENDED, PACKED


@dataclass(frozen=True)
class AttentionTemplate:
    """The one schedule of a kernel of attention."""


def is_attention(mod: tvm.IRModule) -> bool:
    """Whether `main` is a kernel of attention."""
    return [block.name_hint for block in blocks_of(mod)] == [PACKED, ATTENDED]


def apply_attention(sch: Schedule) -> None:
    """Schedules `main` of `sch`."""
    for name in (PACKED, ATTENDED):
        (loop,) = sch.get_loops(sch.get_sblock(name))
        sch.parallel(loop)
