"""A network's tasks, their searches by one kind of measurement, and the network with the best programs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.networks import AS_FASTEST, Network, extract_tasks, load_network, to_relax
from foretune.compiler.replay import replay_or_reject
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.errors import UserError
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.original import comparison_with_original
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from .measuring import MEASURED_BY
from .records import Content, TaskRecords, commit, latency_s, read_compact, write_compact
from .search import TaskSearch


class WrongOutputsError(UserError):
    """The network with MetaSchedule's programs computes something else."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A network for this machine's CPU."""

    name: str

    @property
    def label(self) -> str:
        """The name in names of files; an ONNX file has a path as its name."""
        return Path(self.name).stem.replace(":", "-")

    @cached_property
    def network(self) -> Network:
        """The network with its inputs."""
        return load_network(self.name)

    @cached_property
    def target(self) -> Target:
        """Target of the programs."""
        return parse_target("llvm")

    @cached_property
    def relax_mod(self) -> tvm.IRModule:
        """The network as `foretune tune` lowers it by default, without alternatives."""
        return to_relax(self.network, self.target, AS_FASTEST)

    @cached_property
    def tasks(self) -> list[Task]:
        """All tasks, by their share of the operations."""
        found = extract_tasks(self.relax_mod, self.target, self.label)
        return sorted(found, key=lambda task: -task.weight * task.flops)

    def build(self, contents: Sequence[Content | None], path: Path) -> dict[str, Any]:
        """Compiles the network with a program for each task into `path`; returns the check of its outputs.

        Raises WrongOutputsError and NetworkBuildError.
        """
        database = ms.database.MemoryDatabase()
        for task, content in zip(self.tasks, contents, strict=True):
            if content is not None:
                trace, run_secs = content
                context = make_tune_context(task.mod, self.target, seed=0)
                commit(database, task.mod, self.target, replay_or_reject(context, trace), run_secs)
        compiled = compile_network(self.relax_mod, self.target, database)
        check = comparison_with_original(self.network)(compiled(*self.network.inputs))
        if not check.agrees:
            raise WrongOutputsError(f"{path.stem}: {check.describe()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        compiled.export(path)
        return {
            "unscheduled": list(compiled.unscheduled),
            "max_abs_difference": check.max_abs_difference,
            "tolerance": check.tolerance,
        }


@dataclass(frozen=True, eq=False)
class Arm:
    """MetaSchedule's searches of a network's first tasks, by one kind of measurement."""

    subject: Subject
    measured_by: str
    tasks: Sequence[Task]
    records: Sequence[TaskRecords]
    compact: Path
    """File with the records of all tasks."""

    @classmethod
    def opened(
        cls,
        subject: Subject,
        measured_by: str,
        tasks: Sequence[Task],
        folder: Path,
        compact: Path,
        settings: Mapping[str, Any],
    ) -> Arm:
        """The searches so far: of each task from `folder` or from `compact`, whichever has more programs.

        Raises BrokenStateError.
        """
        records = []
        for number, task in enumerate(tasks):
            own = {**settings, "task": task.workload_hash, "measured_by": measured_by}
            records.append(TaskRecords.read(folder / f"{number:02d}-{task.workload_hash}", own))
        read_compact(compact, records)
        return cls(subject, measured_by, tasks, records, compact)

    def done(self, trials: int) -> bool:
        """Whether the search of each task is complete up to `trials` programs."""
        return all(one.done(trials) for one in self.records)

    def search(self, trials: int, ends: float, **options: Any) -> None:
        """Searches each task up to `trials` programs, until `ends`; `options` are those of `TaskSearch`.

        The file of all records is written after each task, and when the search is interrupted.
        """
        if self.done(trials):
            return
        target = self.subject.target
        with MEASURED_BY[self.measured_by](target) as measure:
            for number, (task, records) in enumerate(zip(self.tasks, self.records, strict=True), 1):
                if records.done(trials) or time.monotonic() > ends:
                    continue
                try:
                    TaskSearch(task, target, records, trials, **options).run(measure, ends)
                finally:
                    write_compact(self.compact, self.records)
                print(f"{self.subject.label}, {self._describe(number, records)}", flush=True)

    def _describe(self, number: int, records: TaskRecords) -> str:
        best = records.best(len(records.contents))
        return (
            f"measured by {self.measured_by}: task {number} of {len(self.tasks)}, {len(records.contents)} "
            f"programs ({records.failed} failed) in {records.seconds(len(records.contents)):.0f} s, "
            f"{'none runs' if best is None else f'{1e3 * latency_s(best):.4f} ms'}"
            f"{', no further one' if records.exhausted else ''}"
        )


@dataclass(frozen=True)
class Stock:
    """The network with the best of the first `trials` programs of each task."""

    trials: int
    records: Sequence[TaskRecords]
    own_tasks: int
    """Number of the largest tasks, which MetaSchedule's own builder and runner measured."""

    @property
    def name(self) -> str:
        """Name among the searches of a run."""
        return f"stock, {self.trials} programs a task{', its measurement' if self.own_tasks else ''}"

    @property
    def best(self) -> list[Content | None]:
        """The best program of each task."""
        return [one.best(self.trials) for one in self.records]

    @property
    def facts(self) -> dict[str, Any]:
        """Parts, programs and seconds of the search."""
        return {
            "search": "EvolutionarySearch, and an XGBModel for each task",
            "measured_by": "foretune"
            if not self.own_tasks
            else "LocalBuilder and LocalRunner, then foretune",
            "trials": self.trials,
            "tasks": len(self.records),
            "own_tasks": self.own_tasks,
            "measured": sum(one.measured(self.trials) for one in self.records),
            "search_s": sum(one.seconds(self.trials) for one in self.records),
        }


def stocks(every: Arm, own: Arm, trials: Sequence[int]) -> list[Stock]:
    """The networks that can be compiled: with all tasks of `every`, and with the first ones of `own`."""
    found = []
    for each in trials:
        if every.done(each):
            found.append(Stock(each, every.records, 0))
            if own.records and own.done(each):
                first = len(own.records)
                found.append(Stock(each, [*own.records, *every.records[first:]], first))
    return found
