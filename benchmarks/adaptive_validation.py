"""How many validations the stop rule saves, and what it loses, on held-out tasks of the shipped records.

Each task's recorded programs are the proposals of a round, the shipped checkpoint scores them, and their
recorded latencies are what a validation would measure. Also says how calibrated the residual's posterior is
after 16 programs drawn at random. No clock is read: the result does not depend on the machine.

    python benchmarks/adaptive_validation.py
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

import numpy as np
import tvm
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.replay import replay
from foretune.dataset.store import RecordStore
from foretune.dataset.tvm_compat import make_tune_context, parse_target
from foretune.inference import PretrainedCostModel, StopConfig
from foretune.inference.residual import NOISE, ResidualModel
from foretune.inference.session import knob_vector
from foretune.inference.validation import Proposal, best_of, validate
from foretune.models.checkpoint import load_checkpoint

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "adaptive_validation.json"


def held_out(checkpoint, dataset, tasks, programs):
    """Proposals and latencies in seconds of each of the first `tasks` held-out tasks."""
    store, hidden = RecordStore(dataset), set(checkpoint.card.split.test_tasks)
    hardware, rows = store.hardware(), {row.workload_hash: row for row in store.tasks()}
    recorded = defaultdict(list)
    for record in store.records():
        if record.workload_hash in hidden:
            recorded[record.workload_hash].append(record)
    models = {name: PretrainedCostModel(checkpoint, device) for name, device in hardware.items()}
    for name, records in sorted(recorded.items())[:tasks]:
        target = parse_target(json.loads(records[0].target))
        context = make_tune_context(tvm.ir.load_json(rows[name].tir), target, seed=0)
        replayed = [(replay(context, record.trace), record) for record in records[:programs]]
        pairs = [(candidate, record) for candidate, record in replayed if candidate is not None]
        scores = models[records[0].hardware_id].predict(context, [candidate for candidate, _ in pairs])
        latencies = [min(record.run_secs, default=math.inf) for _, record in pairs]
        yield (
            name,
            [
                Proposal(record.trace, "", str(latency), float(score), knob_vector(candidate.sch.trace))
                for (candidate, record), score, latency in zip(pairs, scores, latencies, strict=True)
            ],
        )


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
    knobs = np.stack([proposals[i].knobs for i in order])
    scores = np.array([proposals[i].score for i in order])
    model = ResidualModel.fit(knobs[:known], scores[:known], np.exp(-speeds[:known]))
    posterior = model.posterior(knobs[known:], scores[known:])
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, default=ROOT / "data" / "cpu")
    parser.add_argument("--checkpoint", default="cpu")
    parser.add_argument("--tasks", type=int, default=None, help="held-out tasks at most")
    parser.add_argument("--programs", type=int, default=48, help="programs of a task at most")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    checkpoint = load_checkpoint(arguments.checkpoint)
    found = held_out(checkpoint, arguments.dataset, arguments.tasks, arguments.programs)
    tasks = {name: proposals for name, proposals in found if len(proposals) >= 24}
    rows = {}
    for bar in (0.005, 0.01, 0.02, 0.05):
        done = {n: validate(p, recorded, StopConfig(bar, 8, 4)) for n, p in tasks.items()}
        rows[f"stop at {bar:g}"] = summary(
            [len(d) for d in done.values()], [regret(d, tasks[n]) for n, d in done.items()]
        )
    for count in (8, 12, 16, 24):
        done = {
            n: validate(sorted(p, key=lambda q: -q.score)[:count], recorded, StopConfig(0.0))
            for n, p in tasks.items()
        }
        rows[f"fixed {count}"] = summary([count] * len(done), [regret(d, tasks[n]) for n, d in done.items()])
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
