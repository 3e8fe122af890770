"""Sub-space of the most critical primitives of a task (Fasor section 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target
from typing_extensions import Self

from ...compiler.counts.traffic import compulsory_bytes
from ...compiler.structure.space import SketchSpace
from ...compiler.targets import is_cpu
from ...compiler.task import Task
from ...dataset.features.roofline import memory_bound
from ...dataset.hardware import Hardware
from ...errors import UserError
from ..search.config import OneShotConfig
from ..search.settings_checks import OneShotConfigError
from ..spaces.base import DesignSpace
from ..spaces.config import STOCK, SubSpaceConfig
from ..spaces.stock import StockSpace
from .primitives import PRIMITIVES, narrowed

SHIPPED = Path(__file__).parent / "primitive_weights.json"
"""Weights that `python -m benchmarks.sub_space` measured on the bundled records."""

BOUNDS = ("memory", "core")


class WeightsError(UserError, ValueError):
    """A file of primitive weights is missing or invalid."""


@dataclass(frozen=True)
class SubSpace(DesignSpace):
    """Stock's design space with pruned options, and with some primitives at their defaults.

    The limits apply to the decisions that a strategy drafts. A program of a start source may lie outside of
    them.
    """

    needs_narrowing: ClassVar[bool] = True

    stock: StockSpace
    fixed: frozenset[str]
    """Primitives at their defaults."""

    @classmethod
    def check(cls, config: OneShotConfig, target: Target) -> None:
        """See DesignSpace; also raises WeightsError."""
        if not is_cpu(target):
            raise OneShotConfigError(
                f"search.space={config.space}: primitives' weights are those of CPUs, not of "
                f"{target.kind.name}; use search.space={STOCK}"
            )
        primitive_weights(config.sub_space.weights or SHIPPED)

    @classmethod
    def of_task(cls, config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> Self:
        """See DesignSpace; also raises WeightsError."""
        cls.check(config, target)
        if hardware is None:
            raise OneShotConfigError(
                f"search.space={config.space}: needs the figures of the device, which is not known; use "
                f"search.space={STOCK}"
            )
        return cls.of(task, hardware, config.sub_space, config.max_code)

    @classmethod
    def of(cls, task: Task, hardware: Hardware, config: SubSpaceConfig, max_code: int | None) -> Self:
        """The sub-space of a task, in which the primitives with the highest weights for its bound are tuned.

        The task's roofline decides on the bound: it compares the operations with the bytes of the arguments.
        The paper uses the predicted scores instead. Raises WeightsError.
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

    def python_cause(self, target: Target) -> str:
        """See DesignSpace."""
        return self.stock.python_cause(target)


def top(weights: Mapping[str, float], count: int) -> frozenset[str]:
    """The primitives with the highest weights; equal weights keep the order of PRIMITIVES."""
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
