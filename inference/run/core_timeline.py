"""Use of the machine's cores during a run: which of its processes were busy, and in which stage."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import psutil

from ...dataset.generation.core_use import OTHER, CoreUse
from .profiling import StageClock

THIS, STARTING, ENGINES = "main", "starting", "engines"
"""Parts of a run. The processes that are starting import modules for the others. `Workforce.pids` names the
other parts: searching, and the stages of the executor."""

STEP_S = 0.5
"""Seconds between two samples. A sample costs less than a millisecond."""

CHILDREN_S = 2.0
"""Seconds between two looks for new child processes, which cost some milliseconds."""

MOST = 400
"""Most samples that are kept. Neighbours of one stage are joined above that."""


@dataclass(frozen=True)
class CoreSample:
    """Work of the run's processes from the end of the sample before until `until_s`."""

    until_s: float
    """Seconds since the start of the run."""
    stage: str
    """Stage of the run at the end of the sample; empty between stages."""
    busy_s: Mapping[str, float]
    """CPU seconds by part of the run."""


class CoreTimeline:
    """Samples of a run, taken by a thread from `start` to `stop`."""

    def __init__(self, clock: StageClock, elapsed_s: Callable[[], float]) -> None:
        """`clock` knows the stage; `elapsed_s` returns seconds since the start of the run."""
        self._clock, self._elapsed_s = clock, elapsed_s
        self.samples: list[CoreSample] = []
        """Samples so far, in order of time."""
        self._pids: Callable[[], Mapping[str, Collection[int]]] = dict
        self._children: list[int] = []
        self._looked_s = -CHILDREN_S
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pids: Callable[[], Mapping[str, Collection[int]]]) -> None:
        """Begins; `pids` returns the current processes of each part. The past is one sample."""
        own = psutil.Process().cpu_times()
        self.samples = [CoreSample(self._elapsed_s(), self._clock.current, {THIS: own.user + own.system})]
        self._pids = pids
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> list[CoreSample]:
        """Ends, and returns the samples."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        return self.samples

    def _sample(self) -> None:
        use = CoreUse(self._all_pids, alone=[STARTING])
        before: dict[str, float] = {}
        over = False
        while not over:
            over = self._stop.wait(STEP_S)
            use.update()
            found = {THIS if part == OTHER else part: seconds for part, seconds in use.cpu_s().items()}
            busy = {part: max(0.0, seconds - before.get(part, 0.0)) for part, seconds in found.items()}
            before = found
            self.samples.append(CoreSample(self._elapsed_s(), self._clock.current, busy))
            if len(self.samples) > MOST:
                self.samples = thinned(self.samples)

    def _all_pids(self) -> dict[str, Collection[int]]:
        """Processes by part. Children without a part are engines: rivals and exported libraries."""
        parts = dict(self._pids())
        now_s = self._elapsed_s()
        if now_s - self._looked_s >= CHILDREN_S:
            self._looked_s = now_s
            self._children = [child.pid for child in psutil.Process(os.getpid()).children()]
        known = {pid for pids in parts.values() for pid in pids}
        return {**parts, ENGINES: [pid for pid in self._children if pid not in known]}


def thinned(samples: Sequence[CoreSample]) -> list[CoreSample]:
    """Samples of which pairs of neighbours in one stage are joined."""
    kept: list[CoreSample] = []
    joined = True
    for sample in samples:
        if not joined and kept[-1].stage == sample.stage:
            kept[-1] = replace(sample, busy_s=_sum(kept[-1].busy_s, sample.busy_s))
            joined = True
        else:
            kept.append(sample)
            joined = False
    return kept


@dataclass(frozen=True)
class StageUse:
    """Work in one stage of a run."""

    stage: str
    wall_s: float
    busy_s: Mapping[str, float]
    """CPU seconds by part of the run."""

    def idle_s(self, cores: int) -> float:
        """Seconds of idle cores."""
        return max(0.0, cores * self.wall_s - sum(self.busy_s.values()))


def by_stage(samples: Sequence[CoreSample]) -> list[StageUse]:
    """Work by stage, in order of the first entry; wall times add up to the end of the last sample."""
    wall_s: defaultdict[str, float] = defaultdict(float)
    busy_s: defaultdict[str, dict[str, float]] = defaultdict(dict)
    before_s = 0.0
    for sample in samples:
        wall_s[sample.stage] += sample.until_s - before_s
        busy_s[sample.stage] = _sum(busy_s[sample.stage], sample.busy_s)
        before_s = sample.until_s
    return [StageUse(stage, seconds, busy_s[stage]) for stage, seconds in wall_s.items()]


def _sum(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {part: first.get(part, 0.0) + second.get(part, 0.0) for part in {**first, **second}}
