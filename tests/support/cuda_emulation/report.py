"""Typed reports of the tracer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Traffic:
    """Requests of the first block's warps to one kind of memory.

    A request is one instruction of a warp: the n-th use of a place in the text by each of its lanes. Global
    memory answers in `sectors` of 32 bytes and `lines` of 128 bytes, shared memory in `wavefronts` of 32
    banks. `bytes` counts what the lanes asked for.
    """

    requests: int = 0
    bytes: int = 0
    sectors: int = 0
    lines: int = 0
    wavefronts: int = 0


@dataclass(frozen=True)
class KernelReport:
    """One launch: its races, the fault that ended it, and the traffic of its first block.

    `barriers` counts those of all blocks. A race makes results depend on the order of threads, which a
    device does not notice; a `failure` ends a launch there as well. `shared_loads` are those of code
    compiled for a CPU, which has few registers; `shared_loads_once` leaves out what a thread loads again
    between two barriers, as if its registers held everything.
    """

    kernel: str
    blocks: int
    threads: int
    barriers: int
    races: tuple[str, ...]
    failure: str | None
    global_loads: Traffic
    global_stores: Traffic
    shared_loads: Traffic
    shared_stores: Traffic
    shared_loads_once: Traffic

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> KernelReport:
        values: dict[str, Any] = {
            name: Traffic(**value) if isinstance(value, dict) else value for name, value in fields.items()
        }
        return cls(**{**values, "races": tuple(values["races"])})


def parse_reports(text: str) -> tuple[KernelReport, ...]:
    """Reports of the launches in order, from one JSON object a line."""
    return tuple(KernelReport.from_json(json.loads(line)) for line in text.splitlines())
