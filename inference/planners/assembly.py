"""Assembly of a run's planners from `search.planner` and `search.reuse`."""

from __future__ import annotations

from tvm.target import Target

from ..database.tuning_database import TuningDatabase
from ..reuse.base import ReuseMode
from ..search.config import OneShotConfig
from ..search.registry import REUSES


def reuse_of_run(
    config: OneShotConfig, target: Target, database: TuningDatabase, *, retune: bool = False
) -> ReuseMode:
    """Reuse mode of a run, which makes the planners. With `retune` it reuses nothing from the database."""
    mode: type[ReuseMode] = REUSES.find(config.reuse_in_use)
    return mode(config, target, database, retune=retune)
