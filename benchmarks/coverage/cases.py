"""Cases of the suites of single operators and small models, some after each other in a process.

A fork server imports TVM and PyTorch once, so that a case costs its own work alone. A crash or a hang ends
one case only: the others of its process run in another one.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from foretune.compiler.networks import Network
    from numpy.typing import NDArray

PASSED, REFUSED, WRONG = "passed", "refused", "accepted wrong"
TRACEBACK, CRASH, TIME = "traceback", "crash", "time"
OUTCOMES = (PASSED, REFUSED, WRONG, TRACEBACK, CRASH, TIME)
"""Ends of a case. REFUSED: an error names the operator. WRONG: the product's check accepts wrong outputs."""

PRELOADED = (
    "foretune.compiler.networks",
    "foretune.inference.deploy.compile",
    "benchmarks.coverage.warm",
)

EACH = 100
"""Cases that a process runs, at most: a new one costs a second."""

_CAUSE = 600
"""Characters of a cause that are kept."""


@dataclass(frozen=True)
class Subject:
    """A network with the outputs that it must have."""

    network: Network
    expected: Sequence[NDArray[np.generic]] | None = None
    """Outputs from the suite; None for those of the original, which the check compares."""
    relative: float = 1e-3
    absolute: float = 1e-5


@dataclass(frozen=True)
class Case:
    """A network of a suite."""

    name: str
    family: str
    load: Callable[[], Subject]
    """Builds the network in the process of the case; a function of a module or a partial of one."""


def run_cases(
    cases: Sequence[Case], check: Callable[[Subject], None], *, workers: int, limit_s: float
) -> Iterator[dict[str, Any]]:
    """Rows of the cases as they end: case, family, outcome, cause, seconds.

    Args:
        check: converts, runs and compares a subject; raises a UserError to refuse it and WrongOutputError.
        workers: cases at a time.
        limit_s: seconds after which a case is stopped.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, check.__module__])
    waiting, running = list(reversed(cases)), []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                taken = [waiting.pop() for _ in range(min(EACH, -(-len(waiting) // workers)))]
                running.append(_Process(context, taken, check))
            ready = wait([process.pipe for process in running], timeout=0.5)
            for process in list(running):
                case, seconds = process.cases[0], process.seconds
                if process.pipe in ready:
                    outcome, cause, ended = process.received()
                elif seconds > limit_s:
                    outcome, cause, ended = TIME, f"not done after {limit_s:.0f} s", True
                else:
                    continue
                process.next()
                if ended or not process.cases:
                    process.end()
                    running.remove(process)
                    waiting.extend(reversed(process.cases))
                yield {
                    "case": case.name,
                    "family": case.family,
                    "outcome": outcome,
                    "cause": cause[:_CAUSE],
                    "seconds": seconds,
                }
    finally:
        for process in running:
            process.end()


class _Process:
    """A process with the cases that it has not completed, the first of which runs."""

    def __init__(self, context: Any, cases: list[Case], check: Callable[[Subject], None]) -> None:
        self.cases = cases
        self.pipe, there = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(list(cases), check, there), daemon=True)
        self._process.start()
        self._began = time.monotonic()
        there.close()

    @property
    def seconds(self) -> float:
        """Seconds since the first case began."""
        return time.monotonic() - self._began

    def received(self) -> tuple[str, str, bool]:
        """Outcome and cause of the first case, and whether the process ended with it."""
        try:
            return *self.pipe.recv(), False
        except EOFError:  # the process ended before it had a result
            self._process.join(5)
            return CRASH, f"the process ended with status {self._process.exitcode}", True

    def next(self) -> None:
        """Goes on to the next case."""
        self.cases, self._began = self.cases[1:], time.monotonic()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


class WrongOutputError(AssertionError):
    """Outputs differ from the expected ones, and the product's own check accepted them."""


def _run(cases: Sequence[Case], check: Callable[[Subject], None], pipe: Connection) -> None:
    from foretune.compiler.host.lifeline import tie_child_of_multiprocessing

    tie_child_of_multiprocessing()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for case in cases:
        pipe.send(_outcome(case, check))
    pipe.close()


def _outcome(case: Case, check: Callable[[Subject], None]) -> tuple[str, str]:
    from foretune.errors import UserError

    try:
        check(case.load())
    except WrongOutputError as error:
        return WRONG, str(error)
    except UserError as error:
        return REFUSED, str(error)
    except Exception:  # what a user would see as a traceback
        return TRACEBACK, traceback.format_exc()[-_CAUSE:]
    return PASSED, ""


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Cases by outcome, together and by family."""

    def counts(chosen: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        by = {outcome: sum(row["outcome"] == outcome for row in chosen) for outcome in OUTCOMES}
        return {"tried": len(chosen), **{name.replace(" ", "_"): count for name, count in by.items()}}

    families = sorted({row["family"] for row in rows})
    return {
        **counts(rows),
        "families": {family: counts([row for row in rows if row["family"] == family]) for family in families},
    }
