"""Search process: searches tasks in parallel with other processes and with measurements.

Most of a tuning run's time goes into replaying and featurising candidates. A second thread does not speed up
TVM here, but a second process does. Such a process runs this module; see `dataset.measure.worker.loop.main`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from tvm.target import Target

from ...compiler.codegen.objects import ObjectFiles
from ...compiler.targets import is_cpu
from ...compiler.task import Task
from ...compiler.tvm_compat import (
    NoDesignSpaceError,
    load_cpu_intrinsics,
    load_tensor_intrinsics,
    make_tune_context,
)
from ...dataset.hardware import Hardware
from ...dataset.measure import MeasureConfig
from ...dataset.measure.worker.loop import main
from ...dataset.measure.worker.roles import Role
from ...dataset.sampling.programs.counts import CandidateCounts
from ..search.config import OneShotConfig
from ..search.cost_model import load_cost_model
from ..search.session import (
    FixedSession,
    SearchSession,
    Session,
    SessionResources,
    StartsSession,
    over_scores,
)
from ..spaces.chosen import chosen_space
from ..strategies.registry import strategy_class
from ..surrogate.shared import Surrogates
from .deferred_session import DeferredSession
from .messages import RoundReply, RoundRequest


class SearchRole(Role):
    """Holds one session per requested task.

    Settings: `checkpoint` (None for no checkpoint); `hardware` as JSON; `search`, the fields of
    OneShotConfig; `compiles`, whether the run wants only the candidate with the highest score, and its object
    code in the cache folder; and `niceness`, which gives the build processes priority over this process.
    """

    def prepare(self) -> None:
        """Loads the checkpoint and the resources of the strategy."""
        load_tensor_intrinsics()
        hardware = Hardware.from_json(self.settings["hardware"])
        config = OneShotConfig.from_json(self.settings["search"])
        self._objects = ObjectFiles(cached=True) if self.settings["compiles"] else None
        self._model = load_cost_model(self.settings["checkpoint"], hardware)
        self._surrogates = Surrogates()
        self._resources = SessionResources(
            self._model,
            config,
            hardware,
            of_strategy=strategy_class(config.strategy.name).load(config.strategy, hardware),
            surrogates=self._surrogates,
            threads=1,
            clock=self._model.clock,
        )
        self._sessions: dict[str, Session] = {}

    def propose(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Applies `answer` to the JSON of a RoundRequest."""
        return self.answer(RoundRequest.from_json(request)).to_json()

    def answer(self, request: RoundRequest) -> RoundReply:
        """Returns the next proposals for a task."""
        scored = self._model.candidates_scored
        try:
            if request.task is not None:
                self._sessions[request.key] = self._session(request.task, request.surrogate_group)
            session = self._sessions[request.key]
            before = CandidateCounts() if request.task is not None else session.counts
            self._learn_siblings(request)
            session.learn(request.learned)
            candidates = session.propose(request.budget, request.starts, request.parents)
        except NoDesignSpaceError:
            return RoundReply(nothing_to_tune=True)
        if self._objects is not None and candidates:
            candidates = [max(candidates, key=lambda one: one.score)]  # the run stores no other one
            program = session.known.program(candidates[0].trace)
            with self._model.clock.stage("building"):
                self._objects.prepare(program.sch.mod, self.target)
        with self._model.clock.stage("embedding and serialising"):
            proposals = tuple(one.with_text_of(session.known.program(one.trace)) for one in candidates)
        return RoundReply(
            proposals,
            self._model.candidates_scored - scored,
            self._model.clock.take(),
            counts=session.counts - before,
        )

    def _learn_siblings(self, request: RoundRequest) -> None:
        """Teaches the surrogate over scores the measurements of other tasks."""
        for sibling in request.siblings:
            surrogate = self._surrogates.of(*over_scores(sibling.workload, request.surrogate_group))
            surrogate.learn([sibling.candidate], [sibling.latency_s])

    def _session(self, task: Task, group: str) -> Session:
        """Session of a task. Only a search rates programs, which tasks that share a surrogate learn from."""
        if group:
            return self._opened(task, group)
        space = chosen_space(self._resources.config, task, self.target, self._resources.hardware)
        generator = space.generator(self.target)
        context = make_tune_context(task.mod, self.target, seed=0, space=generator, name=task.name)
        starts = StartsSession(context, space.python_cause(self.target))
        return DeferredSession(starts, lambda: self._opened(task, group), self._model.clock)

    def _opened(self, task: Task, group: str) -> Session:
        """Search of a task. Raises NoDesignSpaceError if the task has nothing to tune."""
        try:
            return SearchSession(task, self.target, self._resources, group=group)
        except NoDesignSpaceError:
            return FixedSession(task, self.target)


def _make_role(role: str, target: str, config: dict[str, Any], settings: dict[str, Any]) -> Role:
    torch.set_num_threads(1)  # one process per core
    with contextlib.suppress(OSError):
        os.nice(settings["niceness"])
    found = Target(json.loads(target))
    if is_cpu(found):
        load_cpu_intrinsics(alone=True)
    return SearchRole(found, MeasureConfig(**config), **settings)


if __name__ == "__main__":
    main(_make_role)
