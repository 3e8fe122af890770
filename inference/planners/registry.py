"""Registry of task planners: maps names to classes. The `Config` of a class holds its settings."""

from __future__ import annotations

from typing import Any

from ..search.registry import Registry
from ..search.settings_checks import named_settings
from .config import PlannerConfig

PLANNERS = {
    "shares": ".shares:LatencySharePlanner",
    "round_robin": ".budget:RoundRobinPlanner",
    "gradient": ".budget:GradientPlanner",
    "foresee": "..familyseer.foresee:ForeseePlanner",
    "headroom": ".budget:HeadroomPlanner",
}
"""Module and class of each planner. Each class is a `TurnPlanner`."""

_REGISTRY = Registry("search.planner", __package__, PLANNERS, "unknown; use search/planner= with")


def planner_class(name: str) -> Any:
    """Class of a planner. Raises OneShotConfigError."""
    return _REGISTRY.find(name)


def planner_config(given: Any) -> PlannerConfig:
    """Settings of a planner from a name, from a mapping with the key `name`, or from settings.

    Raises OneShotConfigError, and the errors of the settings for values out of range.
    """
    if isinstance(given, PlannerConfig):
        return given
    found: PlannerConfig = named_settings("planner", given, lambda name: planner_class(name).Config)
    return found
