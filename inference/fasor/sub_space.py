"""Sub-space of the most critical primitives of a task (Fasor section 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.counts.traffic import compulsory_bytes
from ...compiler.structure.space import SketchSpace
from ...compiler.targets import is_cpu
from ...compiler.task import Task
from ...dataset.features.roofline import memory_bound
from ...dataset.hardware import Hardware
from ...errors import UserError
from ..search.settings_checks import OneShotConfigError
from ..spaces.base import DesignSpace
from ..spaces.config import STOCK, SUB_SPACE, SubSpaceConfig
from ..spaces.stock import StockSpace
from .primitives import PRIMITIVES, narrowed

SHIPPED = Path(__file__).parent / "primitive_weights.json"
"""Weights that `python -m benchmarks.sub_space` measured on bundled records."""

BOUNDS = ("memory", "core")


class WeightsError(UserError, ValueError):
    """A file of primitive weights is missing or not one."""


@dataclass(frozen=True)
class SubSpace(DesignSpace):
    """Stock's design space with pruned options and some primitives at their defaults.

    The decisions that a strategy drafts are narrowed; a program that a start source brings may lie outside.
    """

    stock: StockSpace
    fixed: frozenset[str]
    """Primitives at their defaults."""

    @classmethod
    def of(cls, task: Task, hardware: Hardware, config: SubSpaceConfig, max_code: int | None) -> SubSpace:
        """The sub-space of a task: the primitives with the highest weights for its bound are tuned.

        The bound is that of the task's roofline, by its operations and the bytes of its arguments; the paper
        takes the predicted scores. Raises WeightsError.
        """
        bound = "memory" if memory_bound(task.flops, compulsory_bytes(task.mod), hardware) else "core"
        weights = primitive_weights(config.weights or SHIPPED)[bound]
        return cls(StockSpace(max_code), frozenset(PRIMITIVES) - top(weights, config.primitives))

    def generator(self, target: Target) -> ms.SpaceGenerator:
        """See DesignSpace."""
        return self.stock.generator(target)

    def narrowed(self, spaces: Sequence[SketchSpace]) -> Sequence[SketchSpace]:
        """See DesignSpace."""
        return narrowed(spaces, self.fixed)


def check_sub_space(config: SubSpaceConfig, target: Target) -> None:
    """Raises OneShotConfigError for a target without a sub-space, and WeightsError."""
    if not is_cpu(target):
        raise OneShotConfigError(
            f"search.space={SUB_SPACE}: primitives' weights are those of CPUs, not of {target.kind.name}; "
            f"use search.space={STOCK}"
        )
    primitive_weights(config.weights or SHIPPED)


def top(weights: Mapping[str, float], count: int) -> frozenset[str]:
    """The primitives with the highest weights; equal ones in the order of PRIMITIVES."""
    return frozenset(sorted(PRIMITIVES, key=lambda name: -weights[name])[:count])


@lru_cache(maxsize=8)
def primitive_weights(file: str | Path) -> dict[str, dict[str, float]]:
    """Weight of each primitive by bound; raises WeightsError."""
    path = Path(file)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {bound: {name: float(content[bound][name]) for name in PRIMITIVES} for bound in BOUNDS}
    except OSError as error:
        raise WeightsError(
            f"search.sub_space.weights={path}: {error.strerror}; null takes the shipped weights"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise WeightsError(
            f"search.sub_space.weights={path}: not a JSON object of memory and core with weights of "
            f"{', '.join(PRIMITIVES)} ({type(error).__name__}: {error})"
        ) from error
