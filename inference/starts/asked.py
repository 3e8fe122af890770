"""Start sources that the settings of a search ask for, beside those that are always there."""

from __future__ import annotations

from tvm.target import Target

from ...dataset.hardware import Hardware
from ..config import OneShotConfig
from ..reuse.config import AUTO, OFF
from ..tuning_database import TuningDatabase
from .base import StartSource
from .config import PRETUNED


def asked_starts(
    config: OneShotConfig,
    target: Target,
    hardware: Hardware,
    database: TuningDatabase,
    *,
    retune: bool = False,
) -> list[StartSource]:
    """Start sources by `search.templates` and `search.starts`.

    There are templates for CPUs alone, and none in ETO and its baselines, which are as published. `retune`
    takes nothing from the database. Raises PretunedError.
    """
    # Imported where they are asked for: what they need takes most of a second.
    sources: list[StartSource] = []
    if config.templates and target.kind.name == "llvm" and config.reuse in (OFF, AUTO):
        from .templates import TemplateStarts

        sources.append(TemplateStarts(target, hardware, config.templates))
    if config.starts == PRETUNED:
        from .pretuned import pretuned_starts

        sources.append(pretuned_starts(config, target, database, retune=retune))
    return sources
