"""Interface of reuse modes. Each mode is one value of `search.reuse`."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tvm.target import Target

from ..database.tuning_database import TuningDatabase
from ..planners.base import TaskPlanner
from ..planners.turn_planner import make_planner
from ..search.config import OneShotConfig

KNOWN_PROGRAMS = 16
"""Maximum number of programs of a task that are read from the database for reuse by other tasks."""


class ReuseMode(ABC):
    """Planners of a run whose tasks reuse each other's programs. They share the data read about the tasks."""

    def __init__(
        self, config: OneShotConfig, target: Target, database: TuningDatabase, *, retune: bool = False
    ) -> None:
        """With `retune` the mode reuses nothing from the database."""
        self.config = config
        self.target = target
        self.database = database
        self.retune = retune

    @classmethod
    def settings(cls, config: OneShotConfig) -> OneShotConfig:
        """Settings of a search with this mode; by default the given settings."""
        return config

    @abstractmethod
    def planner(self, *, breadth_first: bool = False) -> TaskPlanner:
        """A new planner. `breadth_first` gives each task a quick round first, as a time budget requires."""


class NoReuse(ReuseMode):
    """Mode that searches each task alone."""

    def planner(self, *, breadth_first: bool = False) -> TaskPlanner:
        """See ReuseMode."""
        return make_planner(self.config, breadth_first=breadth_first)
