"""Time and memory of `foretune tune` over the number of tasks, for random networks of the zoo's layers.

    python -m benchmarks.growth
    python -m benchmarks.growth --layers 10 20 --deep 0 -- search.rounds=1

Each network is tuned from an empty database and with an empty cache, without rivals. A network of `--deep`
layers is then tuned for one second, which shows the memory of everything but the search.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .checkouts import python_in, tune_command
from .common import ROOT, argument_parser, read_json, start, this_machine, write_result
from .growing_network import INPUT
from .memory import SHORT

LAYERS = (10, 40, 80, 150)
DEEP = 400
LIMIT_S = 7200.0
NETWORK = "benchmarks.growing_network:Growing"


def row_of(layers: int, report: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds, CPU seconds of all processes by stage, and memory of a run, from its report."""
    cpu_s: defaultdict[str, float] = defaultdict(float)
    for sample in report["cores"]:
        cpu_s[sample["stage"] or "between stages"] += sum(sample["busy_s"].values())
    return {
        "layers": layers,
        "tasks": len(report["tasks"]),
        "total_s": report["total_s"],
        "cpu_s": sum(cpu_s.values()),
        "stage_s": report["stage_s"],
        "stage_cpu_s": dict(cpu_s),
        "peak_mb": report["peak_mb"],
        "estimated_mb": report["estimated_peak_mb"],
    }


def measure(layers: int, seed: int, overrides: Sequence[str]) -> dict[str, Any]:
    """Row of a network. Raises the errors of `python_in`."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [f"network={NETWORK}", f"inputs=[{[1, *INPUT]}]", f"kwargs={{layers:{layers},seed:{seed}}}"]
        words += [f"output={scratch}/report", f"database={scratch}/database", "cache=false", "rivals=[]"]
        python_in(ROOT, [*tune_command(ROOT), *words, *overrides], cwd=Path(scratch), timeout_s=LIMIT_S)
        return row_of(layers, read_json(Path(scratch) / "report" / "report.json"))


def slopes(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds and CPU seconds that a further task takes, over all and by stage, fitted by least squares.

    Empty for fewer than two numbers of tasks.
    """
    tasks = [row["tasks"] for row in rows]
    if len(set(tasks)) < 2:
        return {}

    def slope(values: Sequence[float]) -> float:
        return float(np.polyfit(tasks, values, 1)[0])

    def by_stage(name: str) -> dict[str, float]:
        stages = dict.fromkeys(stage for row in rows for stage in row[name])
        return {stage: slope([row[name].get(stage, 0.0) for row in rows]) for stage in stages}

    return {
        **{name: slope([row[name] for row in rows]) for name in ("total_s", "cpu_s")},
        **{name: by_stage(name) for name in ("stage_s", "stage_cpu_s")},
    }


def describe(row: Mapping[str, Any]) -> str:
    """One line about a run."""
    return (
        f"{row['layers']} layers, {row['tasks']} tasks: {row['total_s']:.1f} s, {row['cpu_s']:.1f} CPU s, "
        f"{row['peak_mb']:,.0f} MB"
    )


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--layers", nargs="+", type=int, default=LAYERS, help="numbers of layers (%(default)s)")
    add(
        "--deep",
        type=int,
        default=DEEP,
        help="layers of the last network, 0 for none (%(default)s)",
    )
    add("--seed", type=int, default=0, help="of the networks (%(default)s)")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    """Entry of `python -m benchmarks.growth`."""
    arguments = arguments_of()
    begun = start()
    # The runs import the networks from here.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    rows = []
    for layers in arguments.layers:
        rows.append(measure(layers, arguments.seed, arguments.overrides))
        print(describe(rows[-1]), flush=True)
    result: dict[str, Any] = {"overrides": arguments.overrides, "rows": rows, "per_task": slopes(rows)}
    if result["per_task"]:
        per_task = result["per_task"]
        print(f"a further task: {per_task['total_s']:.2f} s, {per_task['cpu_s']:.2f} CPU s", flush=True)
    if arguments.deep:
        result["deep"] = measure(arguments.deep, arguments.seed, [*SHORT, *arguments.overrides])
        print(describe(result["deep"]), flush=True)
    write_result("growth", result, begun, this_machine(), results=arguments.out)


if __name__ == "__main__":
    main()
