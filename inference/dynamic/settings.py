"""Settings of a tuning run that dynamic shapes do not support."""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.dynamic.symbols import DynamicShapeError
from ..deploy.rivals.registry import DEFAULT_RIVALS
from ..run.config import TuneConfig


def check_dynamic(config: TuneConfig) -> None:
    """Raises DynamicShapeError for a setting that has no meaning yet together with dynamic shapes."""
    for setting, remedy in _unsupported(config):
        raise DynamicShapeError(f"{setting}: dynamic shapes do not support it yet; {remedy}")


def _unsupported(config: TuneConfig) -> Iterator[tuple[str, str]]:
    """Settings with the next step."""
    if config.is_set:
        yield "several networks or inputs", "tune them one by one"
    if config.anytime:
        yield "anytime=true", "leave it out"
    if config.check_inputs is not None:
        yield f"check_inputs={config.check_inputs}", "leave it out"
    if config.latency_target_s is not None:
        yield f"latency_target_s={config.latency_target_s}", "leave it out"
    if config.require_database:
        yield "require_database=true", "leave it out: no database has their schedules"
    if config.executor.kind not in ("local", "none"):
        yield f"executor={config.executor.kind}", "use executor=local"


def ignored(config: TuneConfig) -> list[str]:
    """Parts that the settings ask for and that a run of a dynamic network leaves out, one text each."""
    found = []
    if config.budget_s is not None and not config.search.measure:
        found.append("budget_s= has no measurement to limit")
    return found


def asked_rivals(config: TuneConfig) -> list[str]:
    """Rivals that the settings name; the default ones are not timed with dynamic shapes."""
    return [] if tuple(config.rivals) == DEFAULT_RIVALS else list(config.rivals)
