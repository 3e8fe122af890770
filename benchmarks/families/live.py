"""Planners and shared surrogates on a device, and foresee tuning of stock's search against stock's scheduler.

Every run begins with an empty database. The networks from Foretune's searches are timed side by side.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from foretune.compiler.networks import AS_FASTEST, extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import available_cores, parse_target
from foretune.errors import UserError
from foretune.inference import FamilyCostModel, FamilyTaskScheduler
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ..networks import contest
from ..networks.dry_runner import DRY_STRATEGY, DryRunner
from ..networks.stock import ROUND, search
from . import BASE, REUSE, THREE_QUARTERS, TRIALS_A_TASK

NETWORKS = ("resnet18", "mobilenetv2", "bert_base", "vit_base")

SEARCHES: Mapping[str, Sequence[str]] = {
    BASE: ("search.reuse=off",),
    "gradient": ("search.reuse=off", "search/planner=gradient"),
    "foresee": ("search.reuse=off", "search/planner=foresee"),
    "headroom": ("search.reuse=off", "search/planner=headroom"),
    "shares, shared": ("search.reuse=off", "search.share_surrogate=true"),
    "foresee, shared": ("search.reuse=off", "search/planner=foresee", "search.share_surrogate=true"),
    "headroom, shared": ("search.reuse=off", "search/planner=headroom", "search.share_surrogate=true"),
    REUSE: ("search.reuse=auto",),
    "shares, reuse, shared": ("search.reuse=auto", "search.share_surrogate=true"),
    "headroom, reuse, shared": (
        "search/planner=headroom",
        "search.reuse=auto",
        "search.share_surrogate=true",
    ),
    THREE_QUARTERS: ("search/planner=headroom", "search.reuse=auto", "search.share_surrogate=true"),
}
"""Overrides of `foretune tune` by name."""

BUDGETS: Mapping[str, contest.Budget] = {
    **dict.fromkeys(
        ("gradient", "foresee", "headroom", "foresee, shared", "headroom, shared"), contest.Budget(BASE)
    ),
    "headroom, reuse, shared": contest.Budget(REUSE, 0.75),
    THREE_QUARTERS: contest.Budget(REUSE, 0.75, start=True),
}
"""Seconds for a search, enough for `top_k` programs per task.

Planning by shares stops on its own when the surrogate expects no further gain. A budget counts from the start
of the command, so a search gets some seconds less than the share, unless its budget adds them.
"""

STOCK: Mapping[str, Callable[[], dict[str, Any]]] = {
    "stock, gradient": lambda: {"scheduler": "gradient", "cost_model": "xgb"},
    "stock, foresee, fading": lambda: {
        "scheduler": FamilyTaskScheduler(fade=0.5),
        "cost_model": FamilyCostModel(),
    },
    "stock, foresee": lambda: {"scheduler": FamilyTaskScheduler(), "cost_model": FamilyCostModel()},
}
"""Arguments of `networks.stock.search` by name."""


def live(
    keep: Callable[[str, dict[str, Any], Callable[[], Any]], Any],
    networks: Sequence[str],
    seeds: int,
    searches: Sequence[str],
    folder: Path,
    earlier: Mapping[str, Any],
    trials: int = TRIALS_A_TASK,
) -> dict[str, Any]:
    """Runs of the searches by network, after `earlier` ones.

    `runs` have one run of each of Foretune's searches and their networks timed side by side, `stock` those
    of stock's search by scheduler, with `trials` programs per task. A network lacks what no search was asked
    of.
    """
    unknown = [name for name in searches if name not in {*SEARCHES, *STOCK}]
    if unknown:
        known = ", ".join(f'"{name}"' for name in (*SEARCHES, *STOCK))
        raise UserError(f"--searches {unknown[0]!r}: the part live knows {known}; name some of them")
    chosen, schedulers = asked(searches)
    for name in chosen:
        if name in BUDGETS and BUDGETS[name].rival not in chosen:
            raise UserError(f'--searches "{name}": it has the seconds of "{BUDGETS[name].rival}"; name both')
    found: dict[str, Any] = {
        network: {kind: [*runs] for kind, runs in earlier.get(network, {}).items()}
        for network in networks or NETWORKS
    }
    for seed in range(seeds):
        for network, rows in found.items():
            label = f"live-{network}-{seed}"
            if chosen and not contest.is_known(rows.get("runs", ()), chosen, seed):
                budgets = {name: BUDGETS[name] for name in chosen if name in BUDGETS}
                ours = partial(contest.one_of_each, network, seed, folder, chosen, (), budgets)
                settings = {"searches": chosen, "budgets": {name: asdict(budgets[name]) for name in budgets}}
                rows.setdefault("runs", []).append(keep(label, settings, ours))
            if schedulers and not contest.is_known(rows.get("stock", ()), schedulers, seed):
                order = schedulers[:: -1 if seed % 2 else 1]
                settings = {"trials": trials, "round": ROUND}
                runs = {
                    name: keep(
                        f"{label}-{name}", settings, partial(stock, network, name, seed, trials=trials)
                    )
                    for name in order
                }
                rows.setdefault("stock", []).append(runs)
    return found


def asked(searches: Sequence[str]) -> tuple[dict[str, Sequence[str]], list[str]]:
    """Foretune's searches with their overrides, and stock's schedulers, among `searches` or of all."""
    chosen = {name: SEARCHES[name] for name in SEARCHES if not searches or name in searches}
    return chosen, [name for name in STOCK if not searches or name in searches]


def stock(
    network: str,
    name: str,
    seed: int,
    target: str = "llvm",
    *,
    inputs: Any = None,
    trials: int = TRIALS_A_TASK,
    round_size: int = ROUND,
    dry_run: bool = False,
) -> dict[str, Any]:
    """One tuning by MetaSchedule's own search: the sum of its tasks' latencies over its seconds and programs.

    Tasks without a program that runs are left out and named: a gather by random indices ends its process.
    `dry_run` invents latencies.
    """
    device = parse_target(target)
    tasks = extract_tasks(to_relax(load_network(network, inputs=inputs), device, AS_FASTEST), device, network)
    curve = Curve(tasks)
    with tempfile.TemporaryDirectory() as scratch:
        search(
            tasks,
            device,
            Path(scratch),
            seed=seed,
            trials=trials,
            round_size=round_size,
            runner=DryRunner() if dry_run else "local",
            strategy=DRY_STRATEGY if dry_run else "evolutionary",
            threads=1 if target == "llvm" else available_cores(),
            callbacks=[curve],
            **STOCK[name](),
        )
    points = curve.points()
    return {
        "seed": seed,
        "trials": trials,
        "curve": [(at_s, latency_s) for at_s, _, latency_s in points],
        "programs": [programs for _, programs, _ in points],
        "left_out": curve.left_out(),
    }


@derived_object
class Curve(ms.measure_callback.PyMeasureCallback):
    """Best latency of each task over the seconds and the measured programs."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self._tasks = tasks
        self._begun = time.monotonic()
        self._programs = 0
        self._found: list[tuple[float, int, int, float]] = []
        """Seconds since the start, programs of all tasks, number of a task, and its batch's least latency."""

    def points(self) -> list[tuple[float, int, float]]:
        """Seconds, programs, and the sum of the tasks' best latencies, once every task that ran has one."""
        ran, best_s = self._ran(), dict[int, float]()
        points = []
        for at_s, programs, number, latency_s in self._found:
            best_s[number] = min(latency_s, best_s.get(number, math.inf))
            if best_s.keys() == ran:
                sum_s = sum(self._tasks[one].weight * s for one, s in best_s.items())
                points.append((at_s, programs, sum_s))
        return points

    def left_out(self) -> list[str]:
        """Names of the tasks for which no program ran."""
        ran = self._ran()
        return [task.name for number, task in enumerate(self._tasks) if number not in ran]

    def _ran(self) -> set[int]:
        """Numbers of the tasks that have a latency."""
        return {number for _, _, number, _ in self._found}

    def apply(
        self,
        task_scheduler: ms.TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[ms.MeasureCandidate],
        builder_results: Sequence[ms.builder.BuilderResult],
        runner_results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """See MeasureCallback."""
        self.note(task_id, runner_results)

    def note(self, number: int, runner_results: Sequence[ms.runner.RunnerResult]) -> None:
        """Processes a batch of a task."""
        self._programs += len(runner_results)
        seconds = [float(s) for result in runner_results for s in result.run_secs or ()]
        if seconds:
            self._found.append((time.monotonic() - self._begun, self._programs, number, min(seconds)))
