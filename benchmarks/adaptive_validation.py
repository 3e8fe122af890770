"""Which proposals of a search to validate, and how many: what the choice and the stop rule bring.

A search of each of some held-out tasks hands over 128 proposals in one round, and every one is measured; the
measurements are kept in --pools and made once. Rules are then held against the best of
each task: a fixed number of the best predicted, as many chosen by what was measured before, or as many as the
stop rule asks for. Also says how calibrated the residual's posterior is after 16 proposals at random.

What tells programs alike is computed anew, so that another way to tell may be tried on the same measurements.

    python benchmarks/adaptive_validation.py
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import math
import random
import statistics
from pathlib import Path
from unittest import mock

import numpy as np
from foretune.dataset.drafting.features import draft_vectors
from foretune.dataset.drafting.read_structure import read_structure
from foretune.dataset.drafting.read_traces import SketchReader
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureJob, MeasureOutcome, WorkerPool
from foretune.dataset.stored_tasks import stored_rows, stored_task
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.inference import OneShotConfig, PretrainedCostModel, StopConfig, residual
from foretune.inference.draft_choice import with_fitting_draft
from foretune.inference.draft_model import drafting_model
from foretune.inference.residual import NOISE, ResidualModel
from foretune.inference.session import SearchSession
from foretune.inference.validation import Choice, Proposal, best_of, validate

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "adaptive_validation"
FLOPS = (1e6, 3e9)
"""What is smaller cannot be timed well, what is larger takes minutes."""
BATCH = 8
PROPOSALS = 128
CHOSEN = StopConfig(1e-9, 8, 4)
"""By what was measured, without an end."""


def held_out(model, dataset, count):
    """`count` tasks of a dataset that the model's checkpoint was not trained on."""
    hidden = set(model.checkpoint.card.split.test_tasks)
    rows = [row for row in stored_rows(dataset) if row.workload_hash in hidden]
    rows = sorted((row for row in rows if FLOPS[0] < row.flops < FLOPS[1]), key=lambda row: row.workload_hash)
    return random.Random(0).sample(rows, min(count, len(rows)))


def measured_pool(task, target, model, draft_model, config, pool):
    """The device, and every proposal of one search of a task with its latency in seconds, as JSON values."""
    proposals = SearchSession(task, target, model, config, draft_model).propose()
    latencies = []
    for start in range(0, len(proposals), BATCH):
        best_s = min(latencies, default=math.inf)
        jobs = [MeasureJob(each.module, best_s) for each in proposals[start : start + BATCH]]
        latencies += [outcome.latency_s for outcome in pool.measure(jobs)]
    programs = [
        {
            "trace": each.trace,
            "score": each.score,
            "latency_s": latency_s if math.isfinite(latency_s) else None,
        }
        for each, latency_s in zip(proposals, latencies, strict=True)
    ]
    return {"hardware": model.hardware.to_json(), "programs": programs}


def proposals_of(kept, task):
    """The proposals of a kept pool; latencies are their modules."""
    programs = kept["programs"]
    reader = SketchReader(read_structure(task.mod))
    traces = [of["trace"] for of in programs]
    places, known = draft_vectors(traces, reader, Hardware.from_json(kept["hardware"]))
    if not known.all():
        raise SystemExit(f"{task.name}: a trace that this version does not read")
    return [
        Proposal(of["trace"], "", str(of["latency_s"] or math.inf), of["score"], place)
        for of, place in zip(programs, places, strict=True)
    ]


def measured_pools(arguments):
    """Proposals and latencies of each task, measured where they are not kept."""
    target = parse_target("llvm")
    load_tensor_intrinsics()
    hardware = target_hardware(target)
    model = PretrainedCostModel.load(arguments.checkpoint, hardware)
    config = with_fitting_draft(OneShotConfig(rounds=1, top_k=PROPOSALS, choice=1), target)
    draft_model = drafting_model(config, hardware)
    rows = held_out(model, arguments.dataset, arguments.tasks)
    arguments.pools.mkdir(parents=True, exist_ok=True)
    with WorkerPool(target) as pool:
        for number, row in enumerate(rows):
            path = arguments.pools / f"{row.workload_hash}.json.xz"
            task = stored_task(row)
            if not path.exists():
                print(f"{number + 1} of {len(rows)}: {row.name}", flush=True)
                found = measured_pool(task, target, model, draft_model, config, pool)
                path.write_bytes(lzma.compress(json.dumps(found).encode()))
            yield row.workload_hash, proposals_of(json.loads(lzma.decompress(path.read_bytes())), task)


def recorded(jobs):
    """Measures by looking up."""
    latencies = [float(job.module) for job in jobs]
    return [MeasureOutcome((s,)) if math.isfinite(s) else MeasureOutcome() for s in latencies]


def regret(done, proposals):
    """Latency of the best validated over that of the best there is."""
    return best_of(done).latency_s / min(float(proposal.module) for proposal in proposals)


def calibration(proposals, seed=0, known=16):
    """Share within two deviations, and root mean squares of the posterior's and the frozen model's errors."""
    order = np.random.default_rng(seed).permutation(len(proposals))
    speeds = -np.log([float(proposals[i].module) for i in order])
    places = np.stack([proposals[i].place for i in order])
    scores = np.array([proposals[i].score for i in order])
    model = ResidualModel.fit(places[:known], scores[:known], np.exp(-speeds[:known]))
    posterior = model.posterior(places[known:], scores[known:])
    error = speeds[known:] - posterior.mean
    offset = np.mean(speeds[:known] - np.log(np.maximum(scores[:known], 1e-3)))
    frozen = speeds[known:] - offset - np.log(np.maximum(scores[known:], 1e-3))
    deviation = np.sqrt(posterior.deviation**2 + NOISE**2)
    return (np.abs(error) < 2 * deviation).mean(), np.mean(error**2), np.mean(frozen**2)


def summary(counts, regrets):
    return {
        "validated": statistics.fmean(counts),
        "regret_geomean": math.exp(statistics.fmean(math.log(value) for value in regrets)),
        "regret_worst": max(regrets),
    }


def held_against_best(tasks, stop, most=None):
    """Summary of what a rule validates of each task, `most` at most, against the best there is."""
    done = [(validate(Choice(p, stop), recorded, most or len(p)), p) for p in tasks.values()]
    return summary([len(d) for d, _ in done], [regret(d, p) for d, p in done])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, default=ROOT / "data" / "cpu")
    parser.add_argument("--checkpoint", default="cpu")
    parser.add_argument("--tasks", type=int, default=24, help="held-out tasks (%(default)s)")
    parser.add_argument("--pools", type=Path, default=RESULTS / "pools", help="measurements (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS / "summary.json")
    arguments = parser.parse_args()

    tasks = {name: found for name, found in measured_pools(arguments) if len(found) >= 48}
    rows = {}
    for bar in (0.001, 0.003, 0.01, 0.03):  # of all, without a number at most
        for patience in (1, 2):
            stop = StopConfig(bar, 8, 4, patience)
            rows[f"stop at {bar:g}, patience {patience}"] = held_against_best(tasks, stop)
    for count in (8, 12, 16, 24, 32, 48):
        rows[f"best predicted {count}"] = held_against_best(tasks, StopConfig(0.0), count)
        rows[f"chosen {count}"] = held_against_best(tasks, CHOSEN, count)
    for trust, count in itertools.product((0.0, 0.25, 0.5, 1.0), (16, 24, 32)):
        with mock.patch.object(residual, "TRUST", trust):
            rows[f"chosen {count}, scores trusted by {trust:g}"] = held_against_best(tasks, CHOSEN, count)
    finite = {n: [q for q in p if math.isfinite(float(q.module))] for n, p in tasks.items()}
    within, error, frozen = zip(*(calibration(p) for p in finite.values() if len(p) >= 24), strict=True)
    result = {
        "checkpoint": arguments.checkpoint,
        "tasks": sorted(tasks),
        "programs_a_task": statistics.fmean(len(p) for p in tasks.values()),
        "rules": rows,
        "calibration": {
            "within_two_deviations": float(np.mean(within)),
            "rmse_posterior": float(np.sqrt(np.mean(error))),
            "rmse_frozen_model": float(np.sqrt(np.mean(frozen))),
        },
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({name: result[name] for name in ("rules", "calibration")}, indent=2))


if __name__ == "__main__":
    main()
