"""Networks on a GPU: the checkpoint, no checkpoint, and stock MetaSchedule, compared with PyTorch.

    python -m benchmarks.gpu_networks --target cuda --dtype bfloat16 --networks resnet18 --runs 3

Each network is tuned with `checkpoint=cuda` and timed in turns with eager, torch.compile and max-autotune.
Then it is tuned with the same number of measured programs per task in two other ways: with `checkpoint=null`,
and by MetaSchedule's own search (XGBoost, its default strategy). With the first seed, that search also runs
with `--stock-trials` per task. Stock searches its tasks sequentially, so that each is kept, and the network
is compiled like the others. The time to a runnable network is the time of the whole command. Float32 is
without TF32 in all of them.

Runs are kept in `--runs-in`, so a stopped benchmark resumes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..checkouts import python_in
from ..common import ROOT, argument_parser, in_turns, start, this_machine
from ..kept_runs import KeptRuns, add_options
from ..rivals.runs import FORETUNE, measure

NETWORKS = ("resnet18", "resnet50", "mobilenetv2", "bert_base", "vit_base")
RIVALS = ("eager", "inductor", "inductor_max_autotune")

CHECKPOINT, NONE, STOCK, LONG = "checkpoint=cuda", "checkpoint=null", "stock", "stock, long"
"""Contestants in the order of their runs; the later ones get as many measurements as the first."""

POLICY = "float32 without TF32 in TVM and in PyTorch"
LEAST_S = 100.0
"""Seconds that must remain before a search of stock begins."""


class UnfinishedError(Exception):
    """A search of stock had no time for all tasks; its finished tasks are kept."""


def rows_of(run: Mapping[str, Any], contestant: str, seed: int) -> list[dict[str, Any]]:
    """Rows of a run of `foretune tune`: the tuned network, and its rivals under their own names."""
    fields = ("network", "dtype", "version", "latency_s", "ready_s", "disturbed", "error")
    return [
        {
            "contestant": contestant if row["rival"] == FORETUNE else row["rival"],
            "seed": seed,
            "measured": run["measured"] if row["rival"] == FORETUNE else None,
            **{name: row[name] for name in fields},
        }
        for row in run["rows"]
    ]


class Contest:
    """Runs of one network, data type and seed."""

    def __init__(self, given: argparse.Namespace, runs: KeptRuns, network: str, seed: int) -> None:
        self._given, self._runs, self._network, self._seed = given, runs, network, seed
        self._name = f"{network.replace(':', '-')}-{given.dtype}-{seed}"

    def rows(self) -> list[dict[str, Any]]:
        """Rows of all contestants that are kept or fit into the time."""
        first = self._tuned(CHECKPOINT, RIVALS, ())
        if first is None:
            return []
        rows = rows_of(first, CHECKPOINT, self._seed)
        programs = max(1, round(first["measured"] / max(first["peak"]["tasks"], 1)))
        equal = ("search.rounds=1", f"search.top_k={programs}")
        if (second := self._tuned(NONE, (), equal)) is not None:
            rows += rows_of(second, NONE, self._seed)
        rows += self._by_stock(STOCK, programs)
        if self._seed == 0 and self._given.stock_trials:
            rows += self._by_stock(LONG, self._given.stock_trials)
        return rows

    def _tuned(self, contestant: str, rivals: Sequence[str], words: Sequence[str]) -> Any:
        name, given = f"{self._name}-{contestant.replace('=', '-')}", self._given
        if not self._runs.in_time(name):
            return None
        overrides = [
            f"target={given.target}",
            f"seed={self._seed}",
            f"lowering.dtype={given.dtype}",
            contestant,
        ]
        overrides += ["executor=dry_run"] if given.dry_run else [f"budget_s={given.budget_s}"]
        overrides += [*given.overrides, *words]
        settings = {"network": self._network, "rivals": rivals, "overrides": overrides}
        return self._runs.kept(
            name,
            settings,
            partial(measure, self._network, overrides, rival_limit_s=given.rival_limit_s, rivals=rivals),
        )

    def _by_stock(self, contestant: str, trials: int) -> list[dict[str, Any]]:
        given = self._given
        name = f"{self._name}-{contestant.replace(', ', '-')}"
        folder = self._runs.folder / f"{name}-{trials}"
        limit_s = self._runs.left_s
        if not (self._runs.folder / f"{name}.json").is_file() and limit_s < LEAST_S and not given.dry_run:
            self._runs.left_out.append(name)
            return []

        def search() -> Any:
            words = ["-m", "benchmarks.gpu_networks.stock", self._network, "--folder", str(folder)]
            words += ["--trials", str(trials), "--seed", str(self._seed), "--limit-s", f"{limit_s:.0f}"]
            words += ["--dtype", given.dtype, "--target", given.target]
            words += ["--dry-run"] if given.dry_run else []
            words += [f"--inputs={word[7:]}" for word in given.overrides if word.startswith("inputs=")]
            found = json.loads(python_in(ROOT, words, cwd=Path.cwd()).splitlines()[-1])
            if found["left"]:
                raise UnfinishedError(f"{found['left']} tasks")
            return found

        settings = {"network": self._network, "trials": trials, "overrides": given.overrides}
        try:
            run = self._runs.kept(name, settings, search)
        except UnfinishedError as unfinished:
            self._runs.left_out.append(f"{name} ({unfinished})")
            return []
        if run is None:
            return []
        row = {"contestant": contestant, "seed": self._seed, "network": self._network, "dtype": given.dtype}
        row |= {name: run[name] for name in ("measured", "latency_s", "ready_s", "failed", "unscheduled")}
        return [{**row, "version": "MetaSchedule", "disturbed": False, "error": ""}]


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--target", default="cuda", help="target of foretune tune (%(default)s)")
    add("--dtype", default="float32", help="of the tuned network and of PyTorch's (%(default)s)")
    add("--runs", type=int, default=3, help="seeds of each network (%(default)s)")
    add("--budget-s", type=float, default=150.0, help="of search and measurement (%(default)s)")
    add(
        "--stock-trials",
        type=int,
        default=64,
        help="programs a task of the long search; 0 leaves it out (%(default)s)",
    )
    add("--rival-limit-s", type=float, default=150.0, help="seconds a rival may compile (%(default)s)")
    add("--dry-run", action="store_true", help="nothing is run: for a rehearsal without a GPU")
    add_options(parser, "outputs/benchmarks/gpu_networks", "no limit", extends=False)
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    given = arguments_of()
    given.variant = given.dtype
    begun, runs = start(), KeptRuns(given, math.inf)
    rows: list[dict[str, Any]] = []
    for seed, network in in_turns(given.networks, given.runs):
        rows += Contest(given, runs, network, seed).rows()
    hardware = this_machine("llvm" if given.dry_run else given.target)
    result = {"dtype": given.dtype, "policy": POLICY, "budget_s": given.budget_s, "rows": rows}
    runs.write("gpu_networks", result, begun, hardware)


if __name__ == "__main__":
    main()
