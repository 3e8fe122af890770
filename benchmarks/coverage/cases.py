"""Cases of the suites of single operators and small models, each in a process of its own.

A fork server imports TVM and PyTorch once, so that a case costs its own work alone. A crash or a hang ends
one case only.
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

PRELOADED = ("foretune.compiler.networks", "foretune.inference.deploy.compile")

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
    waiting, running = list(reversed(cases)), {}
    while waiting or running:
        while waiting and len(running) < workers:
            case = waiting.pop()
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_run_one, args=(case, check, there), daemon=True)
            process.start()
            there.close()
            running[here] = (case, process, time.monotonic())
        ready = wait(list(running), timeout=0.5)
        for pipe in list(running):
            case, process, began = running[pipe]
            seconds = time.monotonic() - began
            if pipe in ready:
                outcome, cause = _received(pipe, process)
            elif seconds > limit_s:
                outcome, cause = TIME, f"not done after {limit_s:.0f} s"
            else:
                continue
            process.kill()
            process.join()
            pipe.close()
            del running[pipe]
            yield {
                "case": case.name,
                "family": case.family,
                "outcome": outcome,
                "cause": cause[:_CAUSE],
                "seconds": seconds,
            }


class WrongOutputError(AssertionError):
    """Outputs differ from the expected ones, and the product's own check accepted them."""


def _received(pipe: Connection, process: Any) -> tuple[str, str]:
    try:
        outcome, cause = pipe.recv()
    except EOFError:  # the process ended before it had a result
        process.join(5)
        return CRASH, f"the process ended with status {process.exitcode}"
    return outcome, cause


def _run_one(case: Case, check: Callable[[Subject], None], pipe: Connection) -> None:
    from foretune.errors import UserError

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        check(case.load())
    except WrongOutputError as error:
        outcome, cause = WRONG, str(error)
    except UserError as error:
        outcome, cause = REFUSED, str(error)
    except Exception:  # what a user would see as a traceback
        outcome, cause = TRACEBACK, traceback.format_exc()[-_CAUSE:]
    else:
        outcome, cause = PASSED, ""
    pipe.send((outcome, cause))
    pipe.close()


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
