"""What a search gains by knowing which iterations of a transposed convolution multiply zeros.

    python benchmarks/guards.py
    python benchmarks/guards.py --seeds 0 1 2 3 --of unet T2D

Unrolled code leaves these out where no loop around it decides which they are. The same tasks are searched
with and without that knowledge (`Block.guards`), in turns, and the best programs are timed in turns, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import tvm
from foretune.dataset.drafting.read_structure import read_structure
from foretune.dataset.drafting.structure import TaskStructure
from foretune.dataset.measure import WorkerPool
from foretune.dataset.operators import TransposedConv2d, to_task
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.one_shot import search_one_shot
from search_settings import minutes_left
from tuning_curves import geometric_mean, tasks_of, time_in_turns
from tvm.target import Target

RESULTS = Path(__file__).parent / "results" / "guards.json"
READERS = ("foretune.inference.drafting.read_structure", "foretune.inference.likeness.read_structure")


def without_guards(mod: tvm.IRModule) -> TaskStructure:
    """The structure of a task as if each of its iterations did something."""
    structure = read_structure(mod)
    return replace(structure, blocks=tuple(replace(block, guards=()) for block in structure.blocks))


def tasks(target: Target) -> dict[str, Task]:
    """Layers of a generator and of a decoder as Relax lowers them, and the operator of `te_workload`."""
    of = {"batch": 1, "layout": "NHWC"}
    generator = {"height": 8, "width": 8, "in_channels": 256, "out_channels": 128, "kernel": 4, "padding": 1}
    decoder = {"height": 28, "width": 28, "in_channels": 128, "out_channels": 64, "kernel": 2}
    ((_, operator, _),) = tasks_of(["T2D:0"], target, 0)
    return {
        "gan": to_task(TransposedConv2d(stride=2, **generator, **of)),
        "unet": to_task(TransposedConv2d(stride=2, epilogue="bias", **decoder, **of)),
        "T2D": operator,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--of", nargs="+", metavar="TASK", default=["gan", "unet", "T2D"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    load_tensor_intrinsics()
    hardware = target_hardware(target)
    model = PretrainedCostModel.load("cpu", hardware)
    told: dict[str, Any] = {"machine": hardware.name, "hardware_id": hardware.hardware_id}
    known = tasks(target)
    searches = [(seed, name) for seed in arguments.seeds for name in arguments.of]
    rows: list[dict[str, Any]] = []
    started = time.monotonic()
    with WorkerPool(target) as pool:
        for seed, name in searches:
            modules, seconds = [], []
            for reader in (without_guards, read_structure):
                with ExitStack() as stack:
                    for place in READERS:
                        stack.enter_context(mock.patch(place, reader))
                    config = replace(OneShotConfig(), seed=seed)
                    result = search_one_shot(known[name], target, model, pool, config)
                if result.best is None:
                    raise SystemExit(f"{name}: no candidate ran")
                modules.append(result.best.proposal.module)
                seconds.append(result.search_s + result.measure_s)
            without_s, with_s = time_in_turns(modules, target)
            rows.append(
                {"task": name, "seed": seed, "without_s": without_s, "with_s": with_s, "search_s": seconds}
            )
            summary = {
                of: {
                    "speed": geometric_mean([row["without_s"] / row["with_s"] for row in rows_of]),
                    "without_s": statistics.median(row["without_s"] for row in rows_of),
                    "with_s": statistics.median(row["with_s"] for row in rows_of),
                }
                for of in arguments.of
                if (rows_of := [row for row in rows if row["task"] == of])
            }
            arguments.out.write_text(json.dumps(told | {"summary": summary, "rows": rows}, indent=1) + "\n")
            left = minutes_left(started, len(rows), len(searches))
            print(
                f"{name} seed {seed}, {left:.1f} min left: {without_s * 1e6:.0f} us without and "
                f"{with_s * 1e6:.0f} us with it, after {seconds[0]:.1f} and {seconds[1]:.1f} s",
                flush=True,
            )
    for name, of in summary.items():
        print(f"{name}: {of['speed']:.2f}x the speed with it")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
