"""Sampler process: holds the samplers of several tasks and proposes while other processes build and time.

Sampling holds Python's interpreter lock, so that threads do not speed it up. `samplers` starts this module
like `python -m foretune.dataset.generation.sampling_process FD`; see `dataset.measure.worker.loop.main`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from tvm.target import Target

from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import NoDesignSpaceError, load_cpu_intrinsics, load_tensor_intrinsics
from ...configuration import from_hydra
from ..measure import MeasureConfig
from ..measure.worker.loop import RepliedError, main
from ..measure.worker.roles import Role
from ..sampling.programs.config import ProgramSamplingConfig
from .sampling import SamplingRequest, TaskSampling


class _NoSpaceReplyError(RepliedError):
    """The task has nothing to tune."""

    @property
    def reply(self) -> dict[str, Any]:
        return {"no_space": str(self)}


class SamplingRole(Role):
    """Role that samples tasks.

    Setting: `sampling`, the fields of ProgramSamplingConfig.
    """

    def prepare(self) -> None:
        """Import what every task needs."""
        # TVM started without torch. SciPy, below XGBoost, takes the mark that hides torch for the package.
        if sys.modules.get("torch", self) is None:
            del sys.modules["torch"]
        if is_cpu(self.target):
            load_cpu_intrinsics(alone=True)
        load_tensor_intrinsics()
        self._config = from_hydra(OmegaConf.create(self.settings["sampling"]), ProgramSamplingConfig)
        self._tasks: dict[str, TaskSampling] = {}

    def open(self, key: str, request: Mapping[str, Any]) -> None:
        """Create the sampler of a task, which learns from the task's measurements."""
        self._tasks.pop(key, None)
        try:
            self._tasks[key] = TaskSampling(self._config, self.target, SamplingRequest(**request))
        except NoDesignSpaceError as error:
            raise _NoSpaceReplyError(str(error)) from error

    def next_round(self, key: str, outcomes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Round of a task as JSON."""
        return self._tasks[key].next_round(outcomes).to_json()

    def close(self, key: str) -> None:
        """Forget a task."""
        self._tasks.pop(key, None)


def _make_role(role: str, target: str, config: dict[str, Any], settings: dict[str, Any]) -> SamplingRole:
    return SamplingRole(Target(json.loads(target)), MeasureConfig(**config), **settings)


if __name__ == "__main__":
    main(_make_role)
