"""Progress of the benchmark: a line for each step, with an estimate of the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from foretune.errors import first_line
from foretune.wording import counted, duration

LIBRARY, SIZE = "library", "size"
"""Kinds of steps."""

GUESS_S = {LIBRARY: 25.0, SIZE: 12.0}
"""Seconds of a step before the first of its kind has run."""

KEPT_S = 0.2
"""A step that takes less time was kept from an earlier call."""


class OutOfTime(Exception):
    """The time of the call is over before the step that the message names."""


class Progress:
    """Steps of all networks.

    Args:
        steps: number of steps of each network, by kind.
        minutes: no step begins after so many; None sets no limit.
    """

    def __init__(self, steps: Mapping[str, Mapping[str, int]], minutes: float | None) -> None:
        self._left = {network: dict(kinds) for network, kinds in steps.items()}
        self._done = 0
        self._took: dict[str, list[float]] = {kind: [] for kind in GUESS_S}
        self._ends = None if minutes is None else time.monotonic() + 60 * minutes

    def step(
        self, network: str, kind: str, name: str, do: Callable[[], Any], describe: Callable[[Any], str]
    ) -> Any:
        """Does a step of a network and prints a line. Raises OutOfTime instead if the time is over."""
        if self._ends is not None and time.monotonic() > self._ends:
            raise OutOfTime(f"{network}, {name}")
        began = time.monotonic()
        said = "interrupted"
        try:
            found = do()
            said = describe(found)
            return found
        except Exception as error:
            said = f"failed: {first_line(error)}"
            raise
        finally:
            if (took := time.monotonic() - began) > KEPT_S:
                self._took[kind].append(took)
            self._left[network][kind] -= 1
            self._done += 1
            every = self._done + sum(sum(kinds.values()) for kinds in self._left.values())
            line = f"[{self._done} of {every}] {network}, {name}: {said}"
            print(f"{line}; about {duration(self.left_s)} left", flush=True)

    def finish(self, network: str) -> None:
        """The network needs no further step."""
        self._left[network] = {}

    def __str__(self) -> str:
        count = sum(sum(kinds.values()) for kinds in self._left.values())
        return f"{counted(count, 'step')}, about {duration(self.left_s)}"

    @property
    def left_s(self) -> float:
        """Estimate of the seconds of the steps that are left."""
        return sum(
            count * self._mean_s(kind) for kinds in self._left.values() for kind, count in kinds.items()
        )

    def _mean_s(self, kind: str) -> float:
        took = self._took[kind]
        return sum(took) / len(took) if took else GUESS_S[kind]
