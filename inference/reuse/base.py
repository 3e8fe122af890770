"""Interface of reuse modes, each of which is one value of `search.reuse`."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tvm.target import Target

from ..database.tuning_database import TuningDatabase
from ..planners.base import TaskPlanner
from ..planners.turn_planner import make_planner
from ..search.config import OneShotConfig

KNOWN_PROGRAMS = 16
"""Programs of a task that are read from the database for those that reuse it."""


class ReuseMode(ABC):
    """Planners of a run whose tasks reuse each other's programs, with what was read of the tasks."""

    def __init__(
        self, config: OneShotConfig, target: Target, database: TuningDatabase, *, retune: bool = False
    ) -> None:
        """`retune` reuses nothing of the database."""
        self.config = config
        self.target = target
        self.database = database
        self.retune = retune

    @classmethod
    def settings(cls, config: OneShotConfig) -> OneShotConfig:
        """The settings of a search with this mode, by default as they are given."""
        return config

    @abstractmethod
    def planner(self, *, breadth_first: bool = False) -> TaskPlanner:
        """A new planner; `breadth_first` gives each task a quick round first, as a time budget asks for."""


class NoReuse(ReuseMode):
    """Mode in which each task is searched by itself."""

    def planner(self, *, breadth_first: bool = False) -> TaskPlanner:
        """See ReuseMode."""
        return make_planner(self.config, breadth_first=breadth_first)
