"""Entry of `python -m benchmarks.coverage`."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..common import argument_parser, kept_run, read_json, start, this_machine, write_result
from .networks import NETWORKS, NOT_COUNTED
from .process import sweep_one
from .zoos import OWN

OVERRIDES = (
    *("search=no_measurement", "search.top_k=4", "search.strategy.population=256"),
    *("search.strategy.generations=2", "budget_s=300", "executor=local"),
    *("rivals=[]", "untuned_limit_s=1e-9", "timing_repeats=1"),
)
"""Settings of each run: all steps, each as short as possible."""

_ALONE, _EXTRA = "pip install --no-deps torchvision==0.28.0 timm==1.0.31", "pip install 'foretune[networks]'"
INSTALL = {"timm": _ALONE, "torchvision": _ALONE, "pytorchcv": _EXTRA, "transformers": _EXTRA}
"""Installation of each zoo."""


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME", help="(all)")
    add("--most", type=int, help="run at most so many networks that are not kept")
    add("--again", action="store_true", help="run anew what is kept")
    add("--failed", action="store_true", help="run anew what is kept and failed")
    add("--limit-s", type=float, default=400.0, help="seconds a network may take (%(default)s)")
    add("--limit-mb", type=float, default=6000.0, help="memory its processes may take (%(default)s)")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/coverage"), help="(%(default)s)")
    add("--variant", default="", help="suffix of the result's folder")
    return parser.parse_args(words)


def installed(zoo: str) -> bool:
    """Whether a zoo can be imported."""
    return zoo == OWN or find_spec(zoo) is not None


def is_kept(path: Path, *, failed_anew: bool) -> bool:
    """Whether the result of an earlier run counts."""
    return path.is_file() and not (failed_anew and not read_json(path)["run"]["passed"])


def describe(row: Mapping[str, Any]) -> str:
    """One line about a network."""
    if row["passed"]:
        return f"{row['network']}: passed in {row['seconds']:.0f} s, {row['tasks']} tasks"
    return f"{row['network']}: failed in {row['step']} after {row['seconds']:.0f} s: {row['cause'][:300]}"


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Passed and all networks, together and by family."""
    families = {row["family"]: [r for r in rows if r["family"] == row["family"]] for row in rows}
    return {
        "networks": len(rows),
        "passed": sum(row["passed"] for row in rows),
        "families": {
            family: {"networks": len(found), "passed": sum(row["passed"] for row in found)}
            for family, found in families.items()
        },
    }


def main() -> None:
    arguments = arguments_of()
    begun, began = start(), time.monotonic()
    missing = sorted({entry.zoo for entry in NETWORKS.values() if not installed(entry.zoo)})
    wanted = [name for name in arguments.networks if NETWORKS[name].zoo not in missing]
    rows, seconds, pending = [], [], []
    for number, name in enumerate(wanted, 1):
        path = arguments.runs_in / f"{name}.json"
        again = arguments.again or not is_kept(path, failed_anew=arguments.failed)
        if again and arguments.most is not None and len(seconds) >= arguments.most:
            pending.append(name)
            continue
        row = kept_run(
            path,
            {"overrides": OVERRIDES, "limit_s": arguments.limit_s, "limit_mb": arguments.limit_mb},
            lambda name=name: sweep_one(  # type: ignore[misc]
                name, NETWORKS[name], OVERRIDES, limit_s=arguments.limit_s, limit_mb=arguments.limit_mb
            ),
            again=again,
        )
        rows.append(row)
        if again:
            seconds.append(row["seconds"])
            left_min = statistics.fmean(seconds) * (len(wanted) - number) / 60
            minutes = (time.monotonic() - began) / 60
            place = f"{number} of {len(wanted)}, {minutes:.1f} min, at most {left_min:.0f} min left"
            print(f"[{place}] {describe(row)}", flush=True)
    for zoo in missing:
        print(f"left out {zoo}, which is not installed: {INSTALL[zoo]}")
    counts = summary(rows)
    result = {
        "overrides": OVERRIDES,
        "limit_s": arguments.limit_s,
        "limit_mb": arguments.limit_mb,
        **counts,
        "missing_zoos": missing,
        "not_counted": NOT_COUNTED,
        "pending": pending,
        "rows": rows,
    }
    write_result(
        "coverage",
        result,
        begun,
        this_machine(),
        variant=arguments.variant,
        notes="Each row has the commit it was run at. Seconds were taken beside other work of the machine.",
        results=arguments.out,
    )
    print(f"{counts['passed']} of {counts['networks']} passed, {len(pending)} not run yet")


if __name__ == "__main__":
    main()
