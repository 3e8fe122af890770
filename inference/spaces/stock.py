"""Stock's design space, without programs that are not worth measuring."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target
from typing_extensions import Self

from ...compiler.spaces.measurable_space import measurable_space, python_cause
from ...compiler.task import Task
from ...dataset.hardware import Hardware
from ..search.config import OneShotConfig
from .base import DesignSpace


@dataclass(frozen=True)
class StockSpace(DesignSpace):
    """MetaSchedule's design space within `max_code` vector instructions; see `measurable_space`."""

    max_code: int | None

    @classmethod
    def of_task(cls, config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> Self:
        """See DesignSpace."""
        return cls(config.max_code)

    def generator(self, target: Target) -> ms.SpaceGenerator:
        """See DesignSpace."""
        return measurable_space(target, self.max_code)

    def python_cause(self, target: Target) -> str:
        """See DesignSpace."""
        return python_cause(target)
