"""GPU templates in a network: compiled, measured on the device, and used where faster than schedules.

The method is Bolt's light-weight profiler (section 3.2.2). A template is a whole function rather than a
schedule, so a separate file in the database's folder stores it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import tvm
from tvm.target import Target

from ...compiler.host.lifeline import process_pool
from ...compiler.instruction_sets import Gpu
from ...compiler.targets import traits
from ...compiler.task import Task
from ...compiler.templates.gpu.compilation import INSTALL, Compiled
from ...compiler.templates.gpu.function import kernel_function
from ...compiler.templates.gpu.problem import GpuTemplateError, Problem
from ...compiler.templates.gpu.profiler import profile
from ...compiler.tvm_compat import available_cores, workload_hash
from ...dataset.measure import Executor, MeasureJob, MeasureOutcome
from ...errors import UserError
from ..database.fastest_template import FastestTemplate, read_template, template_note
from ..database.folder import TEMPLATES_FILE, append_notes, read_notes
from .gpu_placing import placed
from .result import TaskResult

if TYPE_CHECKING:  # it imports SciPy, which takes a tenth of a second
    from ...compiler.templates.gpu.matching import Match

Compile = Callable[[Problem, Gpu, int], "list[Compiled] | str"]
"""The most promising templates of a problem, up to a number; or the reason for an empty result."""


class TemplateProcessError(UserError, RuntimeError):
    """A process that compiled templates died."""


@dataclass(frozen=True)
class Due:
    """A task, or calls joined into one function, with templates to measure."""

    function: tvm.tirx.PrimFunc
    match: Match


def joined_calls(mod: tvm.IRModule, target: Target) -> dict[str, Due]:
    """Calls that one template computes together, by workload hash of their joined function."""
    if traits(target).gpu is None:
        return {}
    from ...compiler.networks.alternatives.call_chains import call_chains

    return {chain.workload: Due(chain.function, chain.match) for chain in call_chains(mod)}


class GpuTemplates:
    """Templates for the tasks of a network on one target, including templates of earlier runs."""

    def __init__(self, folder: Path, target: Target, count: int, *, retune: bool = False) -> None:
        """Loads templates of earlier runs, unless they must be measured again.

        Args:
            folder: folder of a tuning database.
            target: target of all tasks; some targets have no templates.
            count: number of templates to measure per task; 0 disables templates.
            retune: ignores earlier runs.
        """
        self._path, self._count = folder / TEMPLATES_FILE, count
        self._gpu = traits(target).gpu if count else None
        reads = self._gpu is not None and not retune
        self._known = dict(read_notes(self._path, read_template)) if reads else {}

    def due(self, tasks: Sequence[Task], chains: Mapping[str, Due] | None = None) -> dict[str, Due]:
        """Tasks and chains, by workload hash, that templates support and that were not measured before."""
        if self._gpu is None:
            return {}
        from ...compiler.templates.gpu.matching import matched

        new = {task.workload_hash: task.mod for task in tasks if task.workload_hash not in self._known}
        matches = {name: matched(mod) for name, mod in new.items()}
        found = {name: Due(new[name]["main"], match) for name, match in matches.items() if match is not None}
        return found | {name: due for name, due in (chains or {}).items() if name not in self._known}

    def missing(self) -> str:
        """Advice if this machine lacks the tools to compile templates, or ""."""
        there = find_spec("triton") is not None
        return "" if there else f"templates for GPUs need Triton: {INSTALL}"

    def measure(
        self,
        due: Mapping[str, Due],
        executor: Executor,
        *,
        say: Callable[[str], None] = lambda _: None,
        compile_: Compile | None = None,
    ) -> int:
        """Measures the templates of the tasks in `due`; returns the number that ran.

        If no template of a task can be built, the file records this. If its templates fail to run, the next
        run tries again. `say` receives the reasons why templates were left out.
        """
        if not due or self._gpu is None:
            return 0
        jobs, titles = [], []
        for name, found in self._compiled(due, self._gpu, compile_):
            if isinstance(found, str):
                say(found)
                continue
            for template in found:
                function = kernel_function(due[name].function, due[name].match, template)
                module = tvm.ir.save_json(tvm.IRModule({"main": function}))
                jobs.append(MeasureJob(module, task=name))
                titles.append(due[name].match.problem.title(template.tiling))
        outcomes, tried = executor.measure(jobs), {job.task for job in jobs}
        for name in due:
            of_task = [
                FastestTemplate(outcome.latency_s, title, job.module)
                for job, title, outcome in zip(jobs, titles, outcomes, strict=True)
                if job.task == name and outcome.failure is None
            ]
            if of_task:
                self._note(name, min(of_task, key=lambda one: one.latency_s))
            elif name not in tried:
                self._note(name, FastestTemplate(math.inf, "", ""))
        failed = [outcome for outcome in outcomes if outcome.failure is not None]
        for why, times in Counter(map(_reason, failed)).items():
            say(f"templates for GPUs that failed: {times}, {why}")
        return len(outcomes) - len(failed)

    def placed(
        self, mod: tvm.IRModule, results: Sequence[TaskResult]
    ) -> tuple[tvm.IRModule, list[TaskResult]]:
        """The network with the templates that are faster than its schedules, and the matching results."""
        known = {name: one for name, one in self._known.items() if math.isfinite(one.latency_s)}
        if not known:
            return mod, list(results)
        from ...compiler.networks.alternatives.call_chains import call_chains
        from ...compiler.templates.gpu.matching import matched

        def read(task: tvm.IRModule) -> Match | None:
            return matched(task) if workload_hash(task) in known else None

        return placed(mod, results, known, call_chains(mod, read))

    def _compiled(
        self, due: Mapping[str, Due], gpu: Gpu, compile_: Compile | None
    ) -> Iterator[tuple[str, list[Compiled] | str]]:
        """The most promising templates of each task, or the reason for having none; a task takes a process
        seconds."""
        problems = [task.match.problem for task in due.values()]
        given = repeat(gpu), repeat(self._count)
        if compile_ is not None:
            yield from zip(due, map(compile_, problems, *given), strict=False)
            return
        workers = min(len(problems), available_cores())
        try:
            with process_pool(workers) as pool:
                yield from zip(due, pool.map(compiled_templates, problems, *given), strict=True)
        except BrokenProcessPool as error:
            raise TemplateProcessError(
                "search.templates: a process that compiled templates for the GPU died, as it does without "
                "memory left; free some and run the same command again, or set search.templates=0"
            ) from error

    def _note(self, name: str, known: FastestTemplate) -> None:
        self._known[name] = known
        append_notes(self._path, [template_note(name, known)])


def compiled_templates(problem: Problem, gpu: Gpu, count: int) -> list[Compiled] | str:
    """The `count` most promising templates that compile well; the reason as text if none can be built."""
    try:
        return [one.compiled for one in profile(problem, gpu, count).templates]
    except GpuTemplateError as error:
        return str(error)


def _reason(outcome: MeasureOutcome) -> str:
    """The last line of a failed measurement's message."""
    return next(reversed(outcome.message.strip().splitlines()), str(outcome.failure))
