"""Label noise: the difference between a dataset's records and a second measurement on the same device.

    python -m benchmarks.label_noise --dataset data/mine --tasks 20

All records of some tasks are measured again, so that the first measurement can serve as a prediction of the
second. Its metrics are a ceiling: a cost model beyond them cannot be distinguished from a perfect one on such
records. The device must be the one that measured the records: records of other devices are left out, and so
are records that were cut short, since these are single runs, and records of the last hour. The result
contains the age of the first measurement, and both latencies of each record with whether neither was marked
as disturbed. `foretune dataset datasheet --label-noise` stores the result with the dataset.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import tvm
from foretune.compiler.replay import candidate_module_json, replay
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.generation.noise_probe import NoiseConfig
from foretune.dataset.generation.testbed import Testbed
from foretune.dataset.measure import ExecutorConfig, MeasureConfig, MeasureJob, make_executor
from foretune.dataset.records.store import RecordStore
from foretune.models.metrics.task_metrics import evaluate, scores_from_latency
from scipy.stats import spearmanr

from .common import argument_parser


def chosen_records(store, hardware_id, count, seed, min_hours):
    """Records of the device with at least this age, in lists by task, for `count` randomly drawn tasks."""
    newest = time.time() - 3600 * min_hours
    by_task = defaultdict(list)
    for record in store.records():
        if (
            record.hardware_id == hardware_id
            and record.timestamp <= newest
            and record.failure is None
            and not record.cut_short
        ):
            by_task[record.workload_hash].append(record)
    drawn = np.random.default_rng(seed).permutation(sorted(by_task))[:count]
    return {workload_hash: by_task[workload_hash] for workload_hash in drawn}


def measured_again(testbed, mod, records):
    """Pairs of a record and its second measurement; records that fail now are left out."""
    context = make_tune_context(mod, testbed.target, seed=0)
    replayed = [(record, replay(context, record.trace)) for record in records]
    known = [(record, candidate) for record, candidate in replayed if candidate is not None]
    jobs = [MeasureJob(candidate_module_json(candidate), device=0) for _, candidate in known]
    return [
        (record, measurement)
        for (record, _), measurement in zip(known, testbed.measure(jobs, device=0), strict=True)
        if measurement.outcome.failure is None
    ]


def latencies_of(pairs):
    """Seconds of each record's first and second measurement."""
    first = np.array([record.latency_s for record, _ in pairs])
    second = np.array([measurement.outcome.latency_s for _, measurement in pairs])
    return first, second


def statistics_of(pairs):
    """Figures of the two measurements of each record; latencies in seconds."""
    first, second = latencies_of(pairs)
    difference = np.abs(second - first) / first
    calm = np.array([not (record.disturbed or measurement.disturbed) for record, measurement in pairs])
    hours = [(time.time() - record.timestamp) / 3600 for record, _ in pairs]
    return {
        "records": len(pairs),
        "median_relative_difference_undisturbed": float(np.median(difference[calm])) if calm.any() else None,
        "median_relative_difference": float(np.median(difference)),
        "p90_relative_difference": float(np.quantile(difference, 0.9)),
        "median_second_over_first": float(np.median(second / first)),
        "spearman": float(spearmanr(first, second).statistic),
        "median_hours_between": float(np.median(hours)),
        "disturbed_first": sum(record.disturbed for record, _ in pairs),
        "disturbed_second": sum(measurement.disturbed for _, measurement in pairs),
        "latencies_s": [[float(a), float(b), bool(c)] for a, b, c in zip(first, second, calm, strict=True)],
    }


def ceiling_of(pairs):
    """Metrics of the first measurement as a prediction of the second."""
    group = np.unique([record.workload_hash for record, _ in pairs], return_inverse=True)[1]
    first, second = latencies_of(pairs)
    return evaluate(scores_from_latency(first, group), second, group).summary()


def main() -> None:
    parser = argument_parser(__name__, out=False)
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=20, help="number of tasks (%(default)s)")
    parser.add_argument("--min-hours", type=float, default=1.0, help="age of the records (%(default)s)")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("outputs/label_noise.json"), help="(%(default)s)")
    arguments = parser.parse_args()

    store = RecordStore(arguments.dataset).require()
    modules = {row.workload_hash: row.tir for row in store.tasks()}
    target = parse_target(arguments.target)
    pairs = []
    with make_executor(ExecutorConfig(), target, MeasureConfig()) as executor:
        testbed = Testbed(executor, target, NoiseConfig())
        by_task = chosen_records(
            store, testbed.hardware.hardware_id, arguments.tasks, arguments.seed, arguments.min_hours
        )
        if not by_task:
            parser.error(
                f"--dataset {arguments.dataset}: no record of this device ({testbed.hardware.name}) that is "
                f"{arguments.min_hours:g} hours old: wait, or lower --min-hours"
            )
        for number, (workload_hash, records) in enumerate(by_task.items()):
            mod = tvm.ir.load_json(modules[workload_hash])
            pairs += measured_again(testbed, mod, records)
            print(f"task {number + 1}/{len(by_task)}: {len(pairs)} records measured again", flush=True)
    result = {
        "dataset": str(arguments.dataset),
        "content_hash": store.content_hash(),
        "hardware": testbed.hardware.name,
        "tasks": len(by_task),
        **statistics_of(pairs),
        "first_as_prediction_of_second": ceiling_of(pairs),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    del result["latencies_s"]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
