"""Runs of `foretune tune` with all tasks in the database, and the distribution of their time.

    python -m benchmarks.nothing_to_do
    python -m benchmarks.nothing_to_do --networks resnet18 bert_base --runs 5

Each network is tuned once, from an empty database and for a short time, and is then run repeatedly.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .checkouts import python_in, tune_command
from .common import ROOT, argument_parser, read_json, start, this_machine, write_result

NETWORKS = ("resnet18", "mobilenetv2", "bert_base")
LIMIT_S = 1800.0
ONCE = ("search.rounds=1", "search.finalists=0")
"""Overrides of the run that fills the database; later runs with the same ones have nothing to do."""


def tuned(network: str, database: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """The report of a run with this database."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [f"network={network}", f"output={scratch}", f"database={database}", "rivals=[]", *ONCE]
        python_in(ROOT, [*tune_command(ROOT), *words, *overrides], cwd=Path(scratch), timeout_s=LIMIT_S)
        return dict(read_json(Path(scratch) / "report.json"))


def measure(network: str, runs: int, overrides: Sequence[str]) -> dict[str, Any]:
    """Seconds of each run after the one that fills the database.

    Raises ValueError if one of them measured something.
    """
    with tempfile.TemporaryDirectory() as database:
        first = tuned(network, Path(database), overrides)
        reports = [tuned(network, Path(database), overrides) for _ in range(runs)]
    measured = sum(task["candidates_measured"] for report in reports for task in report["tasks"])
    if measured:
        raise ValueError(f"{network}: {measured} programs were measured where nothing was left to do")
    return {
        "tasks": len(first["tasks"]),
        "first_s": first["total_s"],
        "runs": [{"total_s": report["total_s"], "stage_s": report["stage_s"]} for report in reports],
    }


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--runs", type=int, default=3, help="of each after the first (%(default)s)")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun = start()
    networks, failures = {}, []
    for network in arguments.networks:
        try:
            found = measure(network, arguments.runs, arguments.overrides)
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            failures.append({"network": network, "error": str(error)[-300:]})
            print(f"{network}: failed: {error}", flush=True)
            continue
        networks[network] = found
        seconds = ", ".join(f"{run['total_s']:.1f} s" for run in found["runs"])
        print(f"{network}: {found['tasks']} tasks, {seconds}", flush=True)
    result = {"overrides": arguments.overrides, "failures": failures, "networks": networks}
    write_result("nothing_to_do", result, begun, this_machine(), results=arguments.out)


if __name__ == "__main__":
    main()
