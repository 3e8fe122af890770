"""Which drafts to replay and measure: searches replayed on tasks of which hundreds of drafts were measured.

    python benchmarks/first_drafts.py
    python benchmarks/first_drafts.py --tasks T2D:0 --pools elsewhere        # measures it first, 3 minutes

Of each task 384 drafts are measured, and then three times 64 that are drafted around the fastest with all of
before known; these measurements are kept in --pools. The default search is then replayed on them, with the
pool of drafts and the choice as they are, once for each seed: it has two thirds of the drafts in its first
round and two thirds of what was drafted around the fastest from the second on, and sees each latency with an
error. What it takes for its best is held against the best of all. Rules:

- as it is
- favourites first: before anything ran, what the draft model rates best by itself
- whatever they cost: long and short programs alike
- both: as drafts were replayed before
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureJob, MeasureOutcome, WorkerPool
from foretune.dataset.replay import candidate_module_json
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import (
    load_tensor_intrinsics,
    make_tune_context,
    parse_target,
    target_to_json,
)
from foretune.inference import OneShotConfig, PretrainedCostModel, StopConfig, residual
from foretune.inference.code_limit import limited_space
from foretune.inference.draft_choice import with_fitting_draft
from foretune.inference.draft_model import drafting_model
from foretune.inference.draft_pool import DraftPool
from foretune.inference.drafting import Draft, DraftConfig, Drafter, verified
from foretune.inference.validation import Choice, Proposal, validate
from tuning_curves import tasks_of
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

RESULTS = Path(__file__).parent / "results" / "first_drafts"
FIRST = DraftConfig(population=2048, generations=12, keep=384)
AROUND = DraftConfig(population=512, generations=3, keep=64, vectorised_share=0.0, elsewhere_share=0.0)
TIMES_AROUND, PARENTS = 3, 16
BATCH = 8
SHARE = 2 / 3
ERROR = 0.1
"""A measurement takes so much longer, in the logarithm, as the size of a normal: other work disturbs."""
TOP_KS = (24, 32)
ENDLESS = StopConfig(expected_improvement=1e-9)


@dataclass(frozen=True, eq=False)
class Measured:
    """A draft that was measured."""

    draft: Draft
    store_score: float
    latency_s: float
    build_s: float
    later: bool
    """Whether it was drafted around the fastest."""


def task_of(name: str, target: Target) -> Task:
    ((_, task, _),) = tasks_of([name], target, 0)
    return task


def drafter_of(task: Task, target: Target, hardware: Hardware) -> tuple[ms.TuneContext, Drafter]:
    """As a search makes them by default."""
    config = with_fitting_draft(OneShotConfig(), target)
    model = drafting_model(config, hardware)
    assert model is not None and config.max_code is not None
    space = limited_space(task.mod, target, config.max_code)
    context = make_tune_context(task.mod, target, seed=0, name=task.name, space=space)
    return context, Drafter(task, target, model, context)


def measured_pool(name: str, checkpoint: str) -> dict[str, Any]:
    """What is kept of a task: its `programs` in the order of measuring; a latency of null is a failure."""
    target = parse_target("llvm")
    hardware = target_hardware(target)
    task = task_of(name, target)
    model = PretrainedCostModel.load(checkpoint, hardware)
    context, drafter = drafter_of(task, target, hardware)
    programs: dict[str, dict[str, Any]] = {}
    known, best_s = DraftPool(), math.inf
    with WorkerPool(target) as pool:
        for around in range(1 + TIMES_AROUND):
            drafts = drafter.draft(
                replace(AROUND if around else FIRST, seed=around),
                parents=known.fastest[:PARENTS],
                known=list(programs),
                residual=known.residual,
            )
            found = [pair for pair in verified(context, drafts) if pair[0] not in programs]
            for start in range(0, len(found), BATCH):
                traces, candidates = zip(*found[start : start + BATCH], strict=True)
                scores = model.predict(context, candidates).tolist()
                outcomes = pool.measure([MeasureJob(candidate_module_json(c), best_s) for c in candidates])
                latencies_s = [outcome.latency_s for outcome in outcomes]
                best_s = min(best_s, *latencies_s)
                known.learn(drafter.rated(traces), dict(zip(traces, latencies_s, strict=True)))
                for trace, score, outcome in zip(traces, scores, outcomes, strict=True):
                    programs[trace] = {
                        "trace": trace,
                        "store_score": score,
                        "latency_s": outcome.latency_s if math.isfinite(outcome.latency_s) else None,
                        "build_s": outcome.build_s,
                        "around": around,
                    }
            print(f"  {name}: {len(programs)} measured", flush=True)
    return {
        "name": name,
        "target": target_to_json(target),
        "hardware": hardware.to_json(),
        "programs": list(programs.values()),
    }


def measurements(kept: dict[str, Any]) -> list[Measured]:
    """What a kept pool measured, drafts rated anew."""
    target = parse_target(kept["target"])
    _, drafter = drafter_of(task_of(kept["name"], target), target, Hardware.from_json(kept["hardware"]))
    programs = {of["trace"]: of for of in kept["programs"]}
    found = []
    for draft in drafter.rated(list(programs)):
        of = programs[draft.trace]
        latency_s = math.inf if of["latency_s"] is None else of["latency_s"]
        found.append(Measured(draft, of["store_score"], latency_s, of["build_s"], of["around"] > 0))
    return found


def replayed(task: Sequence[Measured], top_k: int, seed: int, costs: bool) -> tuple[float, float]:
    """A search of `top_k` programs: logarithm of its best over the best of all, and seconds of building."""
    rng = np.random.default_rng(seed)
    config = OneShotConfig(top_k=top_k, rounds=top_k // 8)
    shown = rng.permutation(len(task))[: round(SHARE * len(task))]
    by_trace = {
        task[i].draft.trace: task[i] if costs else replace(task[i], draft=replace(task[i].draft, cost_s=1.0))
        for i in shown
    }
    seen_s = {t: m.latency_s * math.exp(ERROR * abs(rng.normal())) for t, m in by_trace.items()}

    def look_up(jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        latencies = [seen_s[job.module] for job in jobs]
        return [MeasureOutcome((s,)) if math.isfinite(s) else MeasureOutcome() for s in latencies]

    pool, choice = DraftPool(), Choice((), ENDLESS)
    for number in range(config.rounds):
        if number < 2:
            pool.add(of.draft for of in by_trace.values() if of.later == bool(number))
        choice.offer(
            Proposal(draft.trace, "", draft.trace, by_trace[draft.trace].store_score, draft.place)
            for draft in pool.take(config.handed_over)
        )
        done = [v.proposal.trace for v in validate(choice, look_up, config.room(number))]
        pool.learn([by_trace[trace].draft for trace in done], seen_s)
    chosen = [by_trace[v.proposal.trace] for v in choice.known]
    finalists = sorted(chosen, key=lambda of: seen_s[of.draft.trace])[: config.finalists * config.rounds]
    best_s = min(of.latency_s for of in finalists)
    return math.log(best_s / min(of.latency_s for of in task)), sum(of.build_s for of in chosen)


def favourites(candidates: Sequence[Draft], count: int, cost: Any) -> np.ndarray[Any, Any]:
    """Rows of the best rated, in place of `residual.first_batch`."""
    return np.argsort(-np.array([draft.score for draft in candidates]) / cost, kind="stable")[:count]


def of_rule(
    tasks: dict[str, Sequence[Measured]], top_k: int, seeds: int, first: bool, costs: bool
) -> dict[str, Any]:
    """Of searches that begin with favourites or not, and regard costs or not."""
    with mock.patch.object(residual, "first_batch", favourites if first else residual.first_batch):
        found = {
            name: [replayed(task, top_k, seed, costs) for seed in range(seeds)]
            for name, task in tasks.items()
        }
    every = [pair for pairs in found.values() for pair in pairs]
    return {
        "over_best_geomean": math.exp(statistics.fmean(over for over, _ in every)),
        "standard_error": statistics.stdev(over for over, _ in every) / math.sqrt(len(every)),
        "build_s": statistics.fmean(build_s for _, build_s in every),
        "tasks": {
            name: math.exp(statistics.fmean(over for over, _ in pairs)) for name, pairs in found.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", nargs="+", metavar="SOURCE:NUMBER", help="to measure where not kept")
    parser.add_argument("--checkpoint", default="cpu")
    parser.add_argument("--seeds", type=int, default=16, help="searches of a task (%(default)s)")
    parser.add_argument("--pools", type=Path, default=RESULTS / "pools", help="measurements (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS / "summary.json")
    arguments = parser.parse_args()

    load_tensor_intrinsics()
    arguments.pools.mkdir(parents=True, exist_ok=True)
    for name in arguments.tasks or ():
        path = arguments.pools / f"{name.replace(':', '-')}.json.xz"
        if not path.exists():
            path.write_bytes(lzma.compress(json.dumps(measured_pool(name, arguments.checkpoint)).encode()))
    tasks = {}
    for path in sorted(arguments.pools.glob("*.json.xz")):
        kept = json.loads(lzma.decompress(path.read_bytes()))
        tasks[kept["name"]] = measurements(kept)
    if not tasks:
        raise SystemExit(
            f"--pools {arguments.pools}: holds no measurements; name tasks to measure by --tasks"
        )
    rules = {
        "as it is": (False, True),
        "favourites first": (True, True),
        "whatever they cost": (False, False),
        "both": (True, False),
    }
    result: dict[str, Any] = {"programs": sum(map(len, tasks.values())), "seeds": arguments.seeds}
    for top_k in TOP_KS:
        for rule, (first, costs) in rules.items():
            row = of_rule(tasks, top_k, arguments.seeds, first, costs)
            result[f"{top_k} programs, {rule}"] = row
            print(
                f"{top_k} programs, {rule}: {row['over_best_geomean']:.3f}x the best "
                f"(standard error {row['standard_error']:.3f}), {row['build_s']:.1f} s of building",
                flush=True,
            )
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
