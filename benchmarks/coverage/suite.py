"""A suite of cases as a command: chosen cases, kept rows, progress, result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..common import (
    ROOT,
    argument_parser,
    read_json,
    revision,
    start,
    this_machine,
    write_json,
    write_result,
)
from .cases import OUTCOMES, PASSED, Case, Subject, run_cases, summary


def arguments_of(
    package: ModuleType, suite: str, limit_s: float, words: Sequence[str] | None = None
) -> argparse.Namespace:
    """Options of a suite; `limit_s` is the default of `--limit-s`."""
    parser = argument_parser(package.__name__)
    add = parser.add_argument
    add("--cases", nargs="+", metavar="WORD", help="names that contain one of these words (all)")
    add("--sample", type=int, help="so many cases, spread over the suite")
    add("--most", type=int, help="run at most so many cases that are not kept")
    add("--again", action="store_true", help="run anew what is kept")
    add("--failed", action="store_true", help="run anew what is kept and did not pass")
    add("--workers", type=int, default=1, help="cases at a time (%(default)s)")
    add("--limit-s", type=float, default=limit_s, help="seconds a case may take (%(default)s)")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks") / suite, help="(%(default)s)")
    return parser.parse_args(words)


def chosen(cases: Sequence[Case], words: Sequence[str] | None, sample: int | None) -> list[Case]:
    """Cases whose names contain one of the words, thinned out to `sample` evenly spread ones."""
    found = [case for case in cases if not words or any(word in case.name for word in words)]
    if sample is None or sample >= len(found):
        return found
    return [found[number * len(found) // sample] for number in range(sample)]


def is_kept(path: Path, *, again: bool, failed: bool) -> bool:
    """Whether the row of an earlier run counts."""
    if again or not path.is_file():
        return False
    return not failed or read_json(path)["outcome"] == PASSED


def run_suite(
    package: ModuleType,
    suite: str,
    cases: Sequence[Case],
    check: Callable[[Subject], None],
    *,
    limit_s: float,
    further: Mapping[str, Any] | None = None,
    words: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Runs a suite as the command line says, writes its result, and returns it.

    Args:
        suite: name of the result's folder.
        check: see `run_cases`.
        further: JSON values that the result has in addition.
        words: arguments instead of the command line's.
    """
    arguments = arguments_of(package, suite, limit_s, words)
    begun, began = start(), time.monotonic()
    wanted = chosen(cases, arguments.cases, arguments.sample)
    paths = {case.name: arguments.runs_in / f"{case.name.replace('/', '.')}.json" for case in wanted}
    kept = {"again": arguments.again, "failed": arguments.failed}
    waiting = [case for case in wanted if not is_kept(paths[case.name], **kept)]
    pending = waiting[arguments.most :] if arguments.most is not None else []
    waiting = waiting[: len(waiting) - len(pending)]
    commit = revision(ROOT)
    for number, row in enumerate(
        run_cases(waiting, check, workers=arguments.workers, limit_s=arguments.limit_s), 1
    ):
        write_json(paths[row["case"]], {**row, "commit": commit})
        taken = time.monotonic() - began
        left = taken / number * (len(waiting) - number)
        place = f"{number} of {len(waiting)}, {taken / 60:.1f} min, about {left / 60:.0f} min left"
        print(f"[{place}] {described(row)}", flush=True)
    not_run = {case.name for case in pending}
    rows = [read_json(paths[case.name]) for case in wanted if case.name not in not_run]
    result = {
        "limit_s": arguments.limit_s,
        **summary(rows),
        **(further or {}),
        "pending": sorted(not_run),
        "rows": rows,
    }
    notes = "Each row has the commit it was run at. Seconds were taken beside other work of the machine."
    write_result(suite, result, begun, this_machine(), notes=notes, results=arguments.out)
    counts = ", ".join(f"{result[name.replace(' ', '_')]} {name}" for name in OUTCOMES)
    print(f"{len(rows)} tried: {counts}; {len(not_run)} not run yet")
    return result


def described(row: Mapping[str, Any]) -> str:
    """One line about a case."""
    cause = " ".join(row["cause"].split())[-240:]
    return f"{row['case']}: {row['outcome']} in {row['seconds']:.1f} s" + (f": {cause}" if cause else "")
