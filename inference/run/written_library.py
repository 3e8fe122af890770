"""Libraries that a run wrote one after the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WrittenLibrary:
    """A library that a run wrote in place of the one before."""

    after_s: float
    """Seconds from the start of the run until it was written."""
    latency_s: float | None = None
    """Latency of the network in seconds, timed in the tuning process between two rounds; None if it was not
    timed there, as for the last library."""
