"""Ranges of uniformly drawn settings, for the sampler that One-Shot Tuner compares its prior with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LARGEST: Mapping[str, int] = {
    "rows": 512,
    "in_features": 4096,
    "out_features": 4096,
    "inner": 512,
    "columns": 512,
    "channels": 1024,
    "in_channels": 1024,
    "out_channels": 1024,
    "height": 224,
    "width": 224,
}
"""Largest value by name of the field; the smallest is 1. Fields of a window have ranges of their own."""

LARGEST_GROUPS = 32


def up_to(most: int, rng: np.random.Generator) -> int:
    """A whole number from 1 to `most`."""
    return int(rng.integers(1, most, endpoint=True))
