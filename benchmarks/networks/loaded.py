"""Exported networks timed in turns by `foretune.load`, each time in a new process."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretune.inference.deploy.fresh_process import time_in_fresh_process
from foretune.inference.run.result import BY_LOAD
from numpy.typing import NDArray

from ..common import in_turns


def loaded_samples_s(
    libraries: Mapping[str, Path], inputs: Sequence[NDArray[Any]], turns: int
) -> dict[str, list[float]]:
    """Latencies in seconds of each library by its name, one for each turn. Raises FreshProcessError."""
    samples: dict[str, list[float]] = {name: [] for name in libraries}
    for _, name in in_turns(list(libraries), turns):
        timed = {one.name: one for one in time_in_fresh_process(libraries[name], inputs)}
        samples[name].append(statistics.median(timed[BY_LOAD].samples_s))
    return samples
