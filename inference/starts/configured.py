"""Start sources that the settings of a search ask for, beside those that are always there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from tvm.target import Target

from ...compiler.targets import target_instructions
from ...dataset.hardware import Hardware
from ..database.tuning_database import TuningDatabase
from ..search.config import OneShotConfig
from .base import StartSource
from .registry import further_starts


def has_templates(config: OneShotConfig, target: Target) -> bool:
    """Whether a search measures templates on a target: those for CPUs with fused multiply-adds."""
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

    Where nothing is measured, a task takes its most promising template without a search: the closed form
    rates templates better than the cost model does, which was trained on none.

    `here` says that programs run on this machine, whose register tiles may be measured, `alone` is entered
    for it. `retune` takes nothing from the database, nor from the profile of register tiles. Raises
    PretunedError.
    """
    # Imported where they are asked for: what they need takes most of a second.
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
    sources += further_starts(config.starts)(config, target, database, retune)
    return sources
