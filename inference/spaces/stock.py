"""Stock's design space, without what is not worth measuring."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.spaces.measurable_space import measurable_space
from .base import DesignSpace


@dataclass(frozen=True)
class StockSpace(DesignSpace):
    """MetaSchedule's design space within `max_code` vector instructions; see `measurable_space`."""

    max_code: int | None

    def generator(self, target: Target) -> ms.SpaceGenerator:
        """See DesignSpace."""
        return measurable_space(target, self.max_code)
