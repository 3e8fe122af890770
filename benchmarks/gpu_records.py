"""Records of a GPU: their number, their contents, and their rate.

    python -m benchmarks.gpu_records --part ebs --dataset data/gpu-ebs --minutes 9 -- target=cuda

Each part is a separate dataset that `foretune generate` creates; the same command extends it. Words after a
`--` override its settings.

- `ebs`: float32 tasks from the prior, programs on the trajectory of a search (One-Shot Tuner: PGS and EBS)
- `tensor`: the same in float16 and bfloat16, with tensor cores
- `random`: tasks like those in `ebs`, random programs, for the comparison in One-Shot Tuner's Table 4
- `held-out`: test tasks from whole networks, at least 64 programs each
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from foretune.compiler.host.lifeline import start_tied
from foretune.dataset.records.store import RecordStore

from .common import argument_parser, start, write_result

_EBS = ("program_sampling.sampler=evolutionary", "program_sampling.scorer=xgboost")
_SIZE = ("task_sampling.min_flops=1e6", "task_sampling.max_flops=2e10", "records_per_task=64", "per_round=16")

PARTS: Mapping[str, tuple[str, ...]] = {
    "ebs": (*_EBS, *_SIZE, "tasks=700", "seed=81"),
    "tensor": (*_EBS, *_SIZE, "tasks=300", "seed=82", "task_sampling.dtype={float16: 0.5, bfloat16: 0.5}"),
    "random": ("program_sampling.sampler=random", *_SIZE, "tasks=150", "seed=81"),
    "held-out": (
        *(*_EBS, "networks=[resnet18,resnet50,mobilenetv2,bert_base,vit_base]"),
        *("records_per_task=96", "per_round=24", "seed=83"),
    ),
}
"""Overrides of `foretune generate`: at least four rounds per task, so that EBS follows a search."""

SMALL = (
    *("tasks=1", "records_per_task=4", "per_round=2", "workers=1", "samplers=1", "networks=[]"),
    "seed=81",
    *("task_sampling.min_flops=1e6", "task_sampling.max_flops=2e7", "task_sampling.dtype=float32"),
    *("task_sampling.operators={dense: 1.0}", "noise.probe=false", "self_check=false", "datasheet=false"),
    *("program_sampling.evolutionary.population_size=8", "program_sampling.evolutionary.generations=1"),
)
"""Overrides of a rehearsal."""

FINISH_S = 20.0
"""Seconds by which generation may exceed its limit, for the batch in progress."""


def generate(overrides: Sequence[str], dataset: Path, minutes: float) -> bool:
    """Runs `foretune generate` for this many minutes; returns whether it completed earlier.

    Raises CalledProcessError.
    """
    began = time.monotonic()
    words = ["-m", "foretune", "generate", f"dataset={dataset}", f"budget_s={60 * minutes:.0f}", *overrides]
    process = start_tied(words)
    try:
        status = process.wait(60 * minutes + FINISH_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.send_signal(signal.SIGINT)
        process.wait(FINISH_S)
        return False
    if status and not any(dataset.glob("records-*.parquet")):
        raise subprocess.CalledProcessError(status, words)
    return status == 0 and time.monotonic() - began < 60 * minutes - 1


def counted(store: RecordStore) -> dict[str, Any]:
    """Content of a dataset, and its records per minute of measurement."""
    records = store.records()
    valid = [record for record in records if record.failure is None]
    programs = Counter(record.workload_hash for record in valid)
    rounds = Counter(task for task, _ in {(one.workload_hash, one.round) for one in records})
    times = sorted(record.timestamp for record in records)
    # Pauses between calls do not count as time of the machine.
    busy_s = sum(gap for one, other in pairwise(times) if (gap := other - one) < 60)
    return {
        "records": len(records),
        "valid": len(valid),
        "tasks": len(programs),
        "programs_a_task": statistics.median(programs.values()) if programs else 0,
        "rounds_a_task": statistics.median(rounds.values()) if rounds else 0,
        "valid_a_minute": 60 * len(valid) / busy_s if busy_s else None,
        "simulated": sum(record.simulated for record in records),
        "failures": dict(Counter(str(one.failure) for one in records if one.failure is not None)),
        "samplers": dict(Counter(record.sampler for record in records)),
        "operators": dict(Counter(task.operator for task in store.tasks() if task.workload_hash in programs)),
    }


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--part", choices=PARTS, required=True)
    add("--dataset", type=Path, required=True, help="folder; one that exists is continued")
    add("--minutes", type=float, required=True, help="of generation")
    add("--goal", type=int, default=0, help="valid records (%(default)s)")
    add("--small", action="store_true", help="one small task, for a rehearsal")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune generate, after a --")
    return parser.parse_args(words)


def main() -> None:
    given = arguments_of()
    begun = start()
    overrides = [*PARTS[given.part], *(SMALL if given.small else ()), *given.overrides]
    finished = generate(overrides, given.dataset, given.minutes)
    store = RecordStore(given.dataset).require()
    with store.writing():
        store.set_aside_bad_shards()
        store.compact()
    (hardware,) = store.hardware().values()
    result = {"overrides": overrides, "goal": given.goal, "finished": finished, **counted(store)}
    write_result("gpu_records", result, begun, asdict(hardware), variant=given.part, results=given.out)
    print(f"{result['valid']:,} of {given.goal:,} valid records")


if __name__ == "__main__":
    main()
