"""Agreement of devices on the order of the same programs: it bounds the use of hardware features."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from foretune.dataset.records.schema import latency_of
from foretune.models.metrics.task_metrics import spearman

FEWEST_PROGRAMS, FEWEST_TASKS = 8, 5
"""Programs of a task, and tasks of a pair of devices, from which they are compared."""


def agreements(rows: pa.Table) -> list[dict[str, Any]]:
    """Pairs of devices that measured the same programs: rank correlation, and the worth of each best program.

    `spearman` is of the latencies of a task's programs on both devices, averaged over tasks. `top_1` is the
    speed on one device of the program that is fastest on the other, relative to the fastest there, averaged
    over tasks and both directions.
    """
    frame = rows.select(["workload_hash", "trace", "hardware_id"]).to_pandas()
    frame["latency_s"] = [latency_of(secs) for secs in rows["run_secs"].to_pylist()]
    of_devices = dict(list(frame.groupby("hardware_id")))
    found = []
    for one, other in combinations(sorted(of_devices), 2):
        both = pd.merge(of_devices[one], of_devices[other], on=["workload_hash", "trace"])
        tasks = [task for _, task in both.groupby("workload_hash") if len(task) >= FEWEST_PROGRAMS]
        if len(tasks) >= FEWEST_TASKS:
            pairs = [(task["latency_s_x"].to_numpy(), task["latency_s_y"].to_numpy()) for task in tasks]
            found.append(
                {
                    "devices": [one, other],
                    "tasks": len(tasks),
                    "programs": sum(map(len, tasks)),
                    "spearman": float(np.nanmean([spearman(a, b) for a, b in pairs])),
                    "top_1": float(np.mean([_worth(a, b) for a, b in pairs + [(b, a) for a, b in pairs]])),
                }
            )
    return found


def _worth(chosen_by: np.ndarray, latency_s: np.ndarray) -> float:
    return float(latency_s.min() / latency_s[chosen_by.argmin()])
