"""Tasks that an explorer learns on, and tasks that it is judged on.

Each task stays in the part that it had in the training of the environment, so that tests are on tasks that
neither of the two has seen. Whole operators are held out besides (Fasor, section 7.2: tasks "that are never
seen (new operator types with new data shapes on new hardware)"). The environment knows these operators.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...dataset.features.recorded_spaces import RecordedSpace, load_recorded_spaces
from ...dataset.records.schema import TaskRow
from ...dataset.records.stored_tasks import stored_rows
from ...dataset.records.task_shapes import shape_hash
from ...models.checkpoints.card import SplitSummary
from ...wording import counted
from .config import ReinforceConfig
from .environment import TaskSpace

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExplorationTasks:
    """Spaces of the tasks of each part."""

    train: list[RecordedSpace]
    validation: list[RecordedSpace]
    test: list[RecordedSpace]
    """Tasks of operators that are in the training, too."""
    unseen_operators: list[RecordedSpace]

    def part(self, name: str) -> list[RecordedSpace]:
        """The part "train", "validation", "test" or "unseen_operators"."""
        spaces: list[RecordedSpace] = getattr(self, name)
        return spaces


PARTS = ("train", "validation", "test", "unseen_operators")


def load_tasks(config: ReinforceConfig, known: SplitSummary) -> ExplorationTasks:
    """Reads the tasks of `config.dataset`; `known` is the split of the environment.

    The training part has at most `config.tasks` tasks and each other part `config.judging.spaces`, drawn by
    chance. Raises StoreError for a missing or damaged dataset, EmptyDatasetError if no task is left.
    """
    rows = {row.workload_hash: row for folder in config.dataset for row in stored_rows(folder)}
    parts = parts_of(list(rows.values()), known, config.test_operators)
    rng = np.random.default_rng(config.seed)
    # Some tasks have too few records of one sketch: more are asked for than are judged.
    most = dict.fromkeys(PARTS, 2 * config.judging.spaces) | {"train": config.tasks}
    chosen = {
        part: set(rng.permutation(sorted(names))[: most[part]].tolist()) for part, names in parts.items()
    }
    every = set().union(*chosen.values())
    spaces = load_recorded_spaces(config.dataset, lambda row: row.workload_hash in every)
    found = ExplorationTasks(
        *([space for space in spaces if space.workload_hash in chosen[part]] for part in PARTS)
    )
    log.info("tasks: %s", ", ".join(f"{part} {counted(len(found.part(part)), 'space')}" for part in PARTS))
    return found


def parts_of(
    rows: Sequence[TaskRow], known: SplitSummary, test_operators: Sequence[str]
) -> dict[str, set[str]]:
    """Workload hashes of each part; tasks of one shape are in one part."""
    shape = {row.workload_hash: shape_hash(row) for row in rows}
    tested = {shape[name] for name in known.tasks("test") if name in shape}
    validated = {shape[name] for name in known.tasks("validation") if name in shape}
    found: dict[str, set[str]] = {part: set() for part in PARTS}
    for row in rows:
        name = row.workload_hash
        if row.operator in test_operators:
            found["unseen_operators"].add(name)
        elif shape[name] in tested:
            found["test"].add(name)
        else:
            found["validation" if shape[name] in validated else "train"].add(name)
    return found


def task_space(found: RecordedSpace) -> TaskSpace:
    """A recorded space as the environment sees it."""
    return TaskSpace(found.space, found.structure, found.task, found.hardware)
