"""What it is worth to time the best of a search again: `search.finalists`.

    python benchmarks/finalists.py
    python benchmarks/finalists.py --of C1D:0 mobilenetv2:0 --seeds 0 1 2

Each search measures its programs once. Those that came first are then timed again in turns, of which a search
with finalists has one, and at last by the evaluator of tuning_curves.py. From the same measurements, every
number of finalists and of turns takes a program for the best; the evaluator tells how fast that is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.one_shot import search_one_shot
from foretune.inference.validation import FINALIST_WITHIN
from search_settings import add_task_arguments, minutes_left, seeds_and_tasks
from tuning_curves import geometric_mean, time_in_turns

RESULTS = Path(__file__).parent / "results" / "finalists.json"

FINALISTS = (2, 4, 8)
TURNS = (1, 2, 4)
WITHIN = (1.1, 1.25, FINALIST_WITHIN)


def near(row: dict[str, Any], count: int, within: float) -> list[int]:
    """Places of the finalists among the programs of a row, which are in the order of their first times."""
    first_s = row["first_s"][:count]
    return [place for place, latency_s in enumerate(first_s) if latency_s <= within * first_s[0]]


def summary_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each rule the geometric mean of latencies over those without finalists, and the time it takes."""
    found = []
    for count, turns, within in itertools.product(FINALISTS, TURNS, WITHIN):
        ratios, seconds = [], []
        for row in rows:
            places, again_s = near(row, count, within), row["again_s"][:turns]
            taken = min(places, key=lambda at: min(row["first_s"][at], *(turn[at] for turn in again_s)))
            ratios.append(row["latency_s"][taken] / row["latency_s"][0])
            seconds.append(sum(turn[at] for turn in row["took_s"][:turns] for at in places))
        found.append(
            {
                "finalists": count,
                "turns": turns,
                "within": within,
                "latency_ratio": geometric_mean(ratios),
                "seconds": statistics.fmean(seconds),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_task_arguments(parser)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    load_tensor_intrinsics()
    hardware = target_hardware(target)
    model = PretrainedCostModel.load("cpu", hardware)
    searches = seeds_and_tasks(arguments, target)
    told: dict[str, Any] = {"machine": hardware.name, "hardware_id": hardware.hardware_id}
    told["target"] = str(target)
    rows: list[dict[str, Any]] = []
    started = time.monotonic()
    with WorkerPool(target) as pool:
        for seed, task in searches:
            config = OneShotConfig(finalists=0, seed=seed)
            result = search_one_shot(task, target, model, pool, config)
            best = sorted(result.validations, key=lambda v: v.latency_s)[: max(FINALISTS)]
            best = [validation for validation in best if validation.outcome.failure is None]
            if not best:
                raise SystemExit(f"{task.name}: no candidate ran")
            modules = [validation.proposal.module for validation in best]
            jobs = [MeasureJob(module, best[0].latency_s, keep_built=True) for module in modules]
            again = [pool.measure(jobs) for _ in range(max(TURNS))]
            rows.append(
                {
                    "source": task.source,
                    "task": task.name,
                    "seed": seed,
                    "first_s": [validation.latency_s for validation in best],
                    "again_s": [[outcome.latency_s for outcome in turn] for turn in again],
                    "took_s": [[outcome.run_s for outcome in turn] for turn in again],
                    "latency_s": time_in_turns(modules, target),
                }
            )
            told |= {"summary": summary_of(rows), "rows": rows}
            arguments.out.write_text(json.dumps(told, indent=1) + "\n")
            left = minutes_left(started, len(rows), len(searches))
            ratios = "  ".join(
                f"{of['finalists']}: {of['latency_ratio']:.3f}"
                for of in told["summary"]
                if (of["turns"], of["within"]) == (1, FINALIST_WITHIN)
            )
            print(f"{task.name} seed {seed}, {left:.1f} min left; so far {ratios}", flush=True)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
