"""Start sources that the settings of a search request, in addition to the ones that every run has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from tvm.target import Target

from ...compiler.targets import target_instructions
from ...dataset.hardware import Hardware
from ..database.tuning_database import TuningDatabase
from ..search.config import OneShotConfig
from ..search.registry import STARTS
from .base import StartSource


def has_templates(config: OneShotConfig, target: Target) -> bool:
    """Whether a search measures templates on a target; they exist for CPUs with fused multiply-adds."""
    return bool(config.templates) and bool(target_instructions(target, *["float32"] * 3))


def asked_starts(
    config: OneShotConfig,
    target: Target,
    hardware: Hardware,
    database: TuningDatabase,
    *,
    here: bool = False,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
    retune: bool = False,
) -> list[StartSource]:
    """Start sources by `search.templates` and `search.starts`.

    If nothing is measured, a task uses its most promising template without a search. The closed form rates
    templates better than the cost model, whose training data had no templates.

    `here` states that programs run on this machine, so that its register tiles may be measured; `alone` is
    entered for these measurements. `retune` reads nothing from the database or from the profile of register
    tiles. Raises PretunedError.
    """
    # Imported on demand: the dependencies need most of a second to load.
    sources: list[StartSource] = []
    if has_templates(config, target):
        from ...dataset.measure.worker.light_profiler import LightProfiler
        from .templates import TemplateStarts

        profiler = None
        if here and config.tile_profile:
            profiler = LightProfiler(target, hardware, anew=retune, alone=alone)
        count = config.templates if config.measure else 1
        sources.append(
            TemplateStarts(
                target, hardware, count, profiler, config.template_margin, alone=not config.measure
            )
        )
    sources += STARTS.find(config.starts)(config, target, database, retune)
    return sources
