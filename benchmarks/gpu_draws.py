"""How many programs for GPUs pass TVM's postprocessors, and what does a valid one cost? Without a GPU.

    python -m benchmarks.gpu_draws
    python -m benchmarks.gpu_draws --rows 20 --tasks 3

The benchmark draws rows of decisions for every operator type and replays them. Then it samples programs of
tasks by MetaSchedule's evolutionary search and by evolution of rows, with an XGBoost scorer. A simulated
latency, the number of a program's statements, replaces the measurement. Nothing is measured, and no figure
comes from a GPU. It needs a quarter of an hour.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from foretune.compiler.counts.code_size import code_size
from foretune.compiler.operators import OPERATOR_SETTINGS, SettingsError, to_task
from foretune.compiler.replay import RejectedError, replay_or_reject
from foretune.compiler.spaces.measurable_space import measurable_space
from foretune.compiler.structure.limits import MAX_CODE
from foretune.compiler.structure.read_spaces import gpu_limits
from foretune.compiler.structure.row_space import RowSpace
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import design_spaces, make_tune_context, parse_target
from foretune.dataset.features.reading import task_reading
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.sampling.programs import (
    EvolutionaryConfig,
    EvolutionarySampler,
    ProgramSampler,
    RowEvolutionSampler,
    SamplerSetting,
    make_scorer,
)
from foretune.dataset.sampling.tasks import sample_tasks
from rich.progress import track
from tvm.target import Target

from .common import argument_parser, start, this_machine, write_result

TARGETS = {"sm_80": "nvidia/nvidia-a100", "sm_90": "nvidia/nvidia-h100"}
DTYPES = ("float32", "float16")
SECONDS_PER_STATEMENT = 1e-9
"""Simulated latency for each statement of a program."""

BEFORE, AFTER = "metaschedule", "rows"


def main() -> None:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--rows", type=int, default=40, help="rows of each operator type (%(default)s)")
    add("--tasks", type=int, default=4, help="tasks that are sampled, of each data type (%(default)s)")
    add("--rounds", type=int, default=4, help="rounds of a task (%(default)s)")
    add("--per-round", type=int, default=20, help="programs of a round (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    given = parser.parse_args()
    begun = start()
    cells = [(target, dtype) for target in TARGETS for dtype in DTYPES]
    rows = [
        {
            "target": target,
            "dtype": dtype,
            "operator": task.operator,
            **passing(task, target, given.rows, given.seed),
        }
        for target, dtype in track(cells, "replaying rows")
        for task in examples(dtype)
    ]
    sampled = [
        {"dtype": dtype, "task": task.name, "sampler": name}
        | sampling(name, task, given.rounds, given.per_round, given.seed)
        for dtype in DTYPES
        for task in track(tasks(dtype, given.tasks, given.seed), f"sampling programs in {dtype}")
        for name in (BEFORE, AFTER)
    ]
    settings = {"rounds": given.rounds, "per_round": given.per_round, "seed": given.seed}
    result = {"settings": settings, "rows": rows, "sampled": sampled}
    write_result("gpu_draws", result, begun, this_machine(), results=given.out)


def examples(dtype: str) -> Iterator[Task]:
    """An example of each operator type that supports the data type."""
    for cls in OPERATOR_SETTINGS.values():
        try:
            yield to_task(replace(cls.examples()[0], dtype=dtype))
        except SettingsError:
            continue


def tasks(dtype: str, count: int, seed: int) -> Sequence[Task]:
    """Tasks as a generation run for a GPU samples them."""
    return sample_tasks(n=count, seed=seed, dtype=dtype, prepack=0.0)


def passing(task: Task, target: str, count: int, seed: int) -> dict[str, Any]:
    """Rows of a task that were replayed, that passed, causes of the others, and unreadable sketches."""
    parsed = parse_target(TARGETS[target])
    context = make_tune_context(task.mod, parsed, seed=1, space=measurable_space(parsed, None))
    limits = gpu_limits(parsed, MAX_CODE)
    assert limits is not None
    designs = design_spaces(context, task.name)
    space = RowSpace.read(designs, task_reading(context.mod).structure, limits)
    rng = np.random.default_rng(seed)
    causes: Counter[str] = Counter()
    drawn = {row for _ in range(count) if isinstance(row := space.draw(rng), str)}
    for row in sorted(drawn):
        try:
            replay_or_reject(context, row)
        except RejectedError as error:
            causes[str(error)] += 1
    return {
        "replayed": len(drawn),
        "passed": len(drawn) - causes.total(),
        "causes": dict(causes),
        "unread_sketches": len(space.unread),
    }


def sampling(name: str, task: Task, rounds: int, per_round: int, seed: int) -> dict[str, Any]:
    """Valid programs of some rounds, the rows replayed for them, and CPU seconds of this process."""
    sampler = sampler_of(name, task, parse_target(TARGETS["sm_80"]), per_round, seed)
    begun, valid = cpu_s(), 0
    for _ in range(rounds):
        proposed = sampler.propose()
        valid += len(proposed)
        latencies = (SECONDS_PER_STATEMENT * code_size(candidate.sch.mod) for _, candidate in proposed)
        sampler.learn(proposed, [MeasureOutcome((latency,)) for latency in latencies])
    return {
        "valid": valid,
        "replayed": sampler.counts.tried,
        "rejected": sampler.rejected.total(),
        "cpu_s": cpu_s() - begun,
    }


def sampler_of(name: str, task: Task, target: Target, per_round: int, seed: int) -> ProgramSampler:
    """MetaSchedule's search with a population of 128, as on GPUs before rows; or evolution of rows."""
    scorer = make_scorer("xgboost", warm_up=per_round)(task, None)
    cls, config = {
        BEFORE: (EvolutionarySampler, EvolutionaryConfig(population_size=128)),
        AFTER: (RowEvolutionSampler, EvolutionaryConfig()),
    }[name]
    setting = SamplerSetting(
        task,
        target,
        scorer=scorer,
        per_round=per_round,
        seed=seed,
        space=measurable_space(target, None),
        threads=1,
    )
    sampler: ProgramSampler = cls(setting, config)
    return sampler


def cpu_s() -> float:
    """CPU seconds of this process and of its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
