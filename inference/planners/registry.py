"""Registry of task planners: name to class, whose `Config` holds its settings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..search.settings_checks import OneShotConfigError, named_settings

if TYPE_CHECKING:
    from ..search.config import OneShotConfig
    from .turn_planner import TurnPlanner

PLANNERS = {
    "shares": ".shares:LatencySharePlanner",
    "round_robin": ".round_robin:RoundRobinPlanner",
    "gradient": ".gradient:GradientPlanner",
    "foresee": "..familyseer.foresee:ForeseePlanner",
    "headroom": ".headroom:HeadroomPlanner",
}
"""Module and class of each planner, imported when first used; relative to this package.

A class is made from the settings of the search and `breadth_first`, and has its own as `Config`.
"""


@dataclass(frozen=True)
class PlannerConfig:
    """Settings of a planner, the fields of conf/search/planner/<name>.yaml; subclasses add theirs."""

    name: str


def planner_class(name: str) -> Any:
    """The class of a planner; raises OneShotConfigError."""
    if name not in PLANNERS:
        raise OneShotConfigError(
            f"search.planner={name}: unknown; use search/planner= with one of {', '.join(PLANNERS)}"
        )
    module, _, attribute = PLANNERS[name].partition(":")
    return getattr(import_module(module, __package__), attribute)


def planner_config(given: Any) -> PlannerConfig:
    """Settings of a planner from its name, from a mapping with the key `name`, or from settings.

    Raises OneShotConfigError, and what the settings raise for values out of range.
    """
    if isinstance(given, PlannerConfig):
        return given
    found: PlannerConfig = named_settings("planner", given, lambda name: planner_class(name).Config)
    return found


def make_planner(config: OneShotConfig, *, breadth_first: bool = False) -> TurnPlanner:
    """The planner of a search; `breadth_first` gives each task a quick round first."""
    found: TurnPlanner = planner_class(config.planner.name)(config, breadth_first=breadth_first)
    return found
