"""Searches in processes of their own: tasks are searched side by side, and while others are measured.

Replaying and featurising candidates is what a tuning run spends most time on, and a second thread does not
make TVM faster at it; a second process does. This module is what such a process runs, see `worker.main`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import tvm
from tvm.target import Target

from ..dataset.hardware import Hardware
from ..dataset.measure import MeasureConfig
from ..dataset.measure.roles import Role
from ..dataset.measure.worker import main
from ..dataset.task import Task
from ..dataset.tvm_compat import NoDesignSpaceError, load_cpu_intrinsics, load_tensor_intrinsics
from .draft_model import drafting_model
from .plugin import PretrainedCostModel
from .search_config import DraftingConfig, OneShotConfig, StopConfig
from .session import FixedSession, SearchSession


class SearchRole(Role):
    """Keeps a session for each task that it was asked about.

    Settings: `checkpoint`; `hardware` as JSON; `search`, the fields of OneShotConfig; and `niceness`, by
    which a process of its own stands back behind those that build.
    """

    def prepare(self) -> None:
        """Loads the checkpoint and what every search needs."""
        load_tensor_intrinsics()
        hardware = Hardware.from_json(self.settings["hardware"])
        search = dict(self.settings["search"])
        self._config = OneShotConfig(
            **{**search, "stop": StopConfig(**search["stop"]), "draft": DraftingConfig(**search["draft"])}
        )
        self._model = PretrainedCostModel.load(self.settings["checkpoint"], hardware)
        self._draft_model = drafting_model(self._config, hardware)
        self._sessions: dict[str, SearchSession | FixedSession] = {}

    def propose(
        self,
        key: str,
        learned: Mapping[str, float | None],
        task: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> dict[str, Any]:
        """The next proposals for the task `key`; `task` opens it, `quick` is of `SearchSession.propose`.

        `learned` are latencies in seconds by trace, null for a failure.
        """
        scored = self._model.candidates_scored
        try:
            if task is not None:
                self._sessions[key] = self._opened(task_from_json(task))
            session = self._sessions[key]
            session.learn({trace: float("inf") if s is None else s for trace, s in learned.items()})
            proposals = session.propose(quick)
        except NoDesignSpaceError:
            return {"nothing": True}
        return {
            "proposals": [
                {**vars(proposal), "place": proposal.place.astype(np.float64).round(4).tolist()}
                for proposal in proposals
            ],
            "scored": self._model.candidates_scored - scored,
            "stage_s": self._model.clock.take(),
        }

    def _opened(self, task: Task) -> SearchSession | FixedSession:
        """Raises NoDesignSpaceError where the task has nothing to tune."""
        try:
            return SearchSession(
                task, self.target, self._model, self._config, draft_model=self._draft_model, threads=1
            )
        except NoDesignSpaceError:
            return FixedSession(task, self.target)


def task_to_json(task: Task) -> dict[str, Any]:
    """What a search needs of a task, as JSON has it."""
    return {
        "name": task.name,
        "mod": tvm.ir.save_json(task.mod),
        "weight": task.weight,
        "source": task.source,
        "operator": task.operator,
        "settings": {},
        "flops": task.flops,
    }


def task_from_json(values: Mapping[str, Any]) -> Task:
    """Inverse of `task_to_json`."""
    return Task(**{**values, "mod": tvm.ir.load_json(values["mod"])})


def _make_role(role: str, target: str, config: dict[str, Any], settings: dict[str, Any]) -> Role:
    torch.set_num_threads(1)  # there is a process for each core
    with contextlib.suppress(OSError):
        os.nice(settings["niceness"])
    found = Target(json.loads(target))
    if found.kind.name == "llvm":
        load_cpu_intrinsics()
    return SearchRole(found, MeasureConfig(**config), **settings)


if __name__ == "__main__":
    main(_make_role)
