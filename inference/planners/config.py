"""Settings of task planners: conf group `search/planner`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannerConfig:
    """Settings of a planner, the fields of conf/search/planner/<name>.yaml; subclasses add theirs."""

    name: str
