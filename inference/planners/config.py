"""Settings of task planners: conf group `search/planner`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannerConfig:
    """Settings of a planner, read from conf/search/planner/<name>.yaml. Subclasses add fields."""

    name: str
