"""Estimate of the time that a search will take, from earlier runs."""

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
"""Least and most seconds a task of a network, over the median of the networks on its machine. One network in
ten is beyond it: a generator of transposed convolutions takes five times the median."""


@dataclass(frozen=True)
class ReferenceMachine:
    """Seconds of search and measurement a task without reuse, by a machine's committed results."""

    machine: str
    details: Mapping[str, Any]
    """Details of the hardware by which a machine of the kind is known."""
    vector_bits: int
    median_s: float


REFERENCES = (
    ReferenceMachine("AMD Zen 5, 2 cores", {"vendor": "AuthenticAMD", "family": "26"}, 512, 1.6),
    ReferenceMachine("AMD Zen 3, 2 cores", {"vendor": "AuthenticAMD", "family": "25"}, 256, 3.9),
)
"""From benchmarks/results/networks_*: medians over networks, which the tests compare with the results."""

WITH_REUSE = 0.6
"""Time of the default search over that without reuse: from benchmarks/results/reuse_networks, as tested."""


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds of search and measurement, and where they come from."""

    least_s: float
    middle_s: float
    most_s: float
    basis: str


def estimate(
    due: int, search: OneShotConfig, hardware: Hardware, runs: Sequence[RunNote] = ()
) -> TimeEstimate | None:
    """Estimate for a number of due tasks; None where nothing is known of the search.

    `runs` are earlier ones with the same search and database. Without any, the committed results of a machine
    of the same kind count, else those of all machines; they are of the default search on a CPU, with reuse
    or without.
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
    """Whether a search is the default one but for its seed and processes, with reuse or without."""
    default = OneShotConfig(seed=search.seed, processes=search.processes)
    return search in (default, replace(default, reuse=OFF))
