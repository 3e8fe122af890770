"""Estimate of the duration of a search, from earlier runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...dataset.hardware import Hardware
from ...wording import counted
from ..database.tuning_notes import RunNote
from ..reuse.config import AUTO, OFF
from ..search.config import OneShotConfig

SPREAD = (0.55, 1.65)
"""Least and most seconds per task of a network, relative to the median of the networks on its machine. One
network in ten is outside this range: a generator of transposed convolutions needs five times the median."""


@dataclass(frozen=True)
class ReferenceMachine:
    """Seconds of search and measurement per task without reuse, from a machine's committed results."""

    machine: str
    details: Mapping[str, Any]
    """Hardware details that identify this kind of machine."""
    vector_bits: int
    median_s: float


REFERENCES = (
    ReferenceMachine("AMD Zen 5, 2 cores", {"vendor": "AuthenticAMD", "family": "26"}, 512, 1.6),
    ReferenceMachine("AMD Zen 3, 2 cores", {"vendor": "AuthenticAMD", "family": "25"}, 256, 3.9),
)
"""Medians over networks from benchmarks/results/networks_*; tests compare them with the results."""

WITH_REUSE = 0.6
"""Time of the default search over a search without reuse, from benchmarks/results/reuse_networks."""


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds of search and measurement, and the source of the figures."""

    least_s: float
    middle_s: float
    most_s: float
    basis: str


def estimate(
    due: int, search: OneShotConfig, hardware: Hardware, runs: Sequence[RunNote] = ()
) -> TimeEstimate | None:
    """Estimate for a number of due tasks; None without data on the search.

    `runs` are earlier runs with the same search and database. Without any, the committed results for the same
    kind of machine count, or else the results for all machines; they cover the default search on a CPU, with
    or without reuse.
    """
    if runs:
        a_task_s = [run.seconds / run.tasks for run in runs]
        basis = f"{counted(len(runs), 'earlier run')} into this database"
    elif hardware.kind == "cpu" and _is_default(search):
        same = [one for one in REFERENCES if _is(one, hardware)]
        share = WITH_REUSE if search.reuse == AUTO else 1.0
        a_task_s = [share * one.median_s for one in same or REFERENCES]
        basis = f"committed results on {' and '.join(one.machine for one in same or REFERENCES)}"
    else:
        return None
    least, most = SPREAD
    middle_s = statistics.geometric_mean(a_task_s)
    return TimeEstimate(
        least_s=due * least * min(a_task_s),
        middle_s=due * middle_s,
        most_s=due * most * max(a_task_s),
        basis=f"{basis}: {middle_s:.1f} s a task",
    )


def _is(reference: ReferenceMachine, hardware: Hardware) -> bool:
    bits = hardware.details.get("machine_vector_bits", hardware.vector_bits)
    known = {name: str(hardware.details.get(name, "")) for name in reference.details}
    return known == dict(reference.details) and bits == reference.vector_bits


def _is_default(search: OneShotConfig) -> bool:
    """Whether a search is the default one except for its seed, its processes and reuse."""
    default = OneShotConfig(seed=search.seed, processes=search.processes)
    return search in (default, replace(default, reuse=OFF))
