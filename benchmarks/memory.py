"""Peak memory of `foretune tune`, and its estimate before the search.

    python -m benchmarks.memory
    python -m benchmarks.memory --networks bert_base

Each network is tuned from an empty database for a short time. Conversion, checks and timing need most of the
memory, and they are complete.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .checkouts import python_in, tune_command
from .common import ROOT, argument_parser, read_json, start, this_machine, write_result

NETWORKS = ("resnet18", "bert_large")
LIMIT_S = 7200.0
SHORT = (
    *("check_memory=false", "rivals=[]", "budget_s=1", "search.rounds=1", "search.top_k=2"),
    *("search.finalists=0", "search.strategy.population=64", "search.strategy.generations=1"),
)
"""Overrides of the runs."""


def row_of(network: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Peak and estimate in megabytes of a run, from its report."""
    peak_mb, estimated_mb = report["peak_mb"], report["estimated_peak_mb"]
    return {
        "network": network,
        "peak_mb": peak_mb,
        "estimated_mb": estimated_mb,
        "tasks": len(report["tasks"]),
        "total_s": report["total_s"],
    }


def measure(network: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Row of a network. Raises the errors of `python_in`."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [f"network={network}", f"output={scratch}/report", f"database={scratch}/database", *SHORT]
        python_in(ROOT, [*tune_command(ROOT), *words, *overrides], cwd=Path(scratch), timeout_s=LIMIT_S)
        return row_of(network, read_json(Path(scratch) / "report" / "report.json"))


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argument_parser(__name__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    """Entry of `python -m benchmarks.memory`."""
    arguments = arguments_of()
    begun, rows = start(), []
    for network in arguments.networks:
        rows.append(row := measure(network, arguments.overrides))
        print(f"{network}: {row['peak_mb']:,.0f} MB, {row['estimated_mb']:,.0f} MB expected", flush=True)
    write_result("memory", {"networks": rows}, begun, this_machine(), results=arguments.out)


if __name__ == "__main__":
    main()
