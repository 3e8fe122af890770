"""Rounding errors of Winograd's algorithm, which decide whether a layer may be computed by it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...types import TYPES, WIDE, data_type
from .winograd import Transforms, transform_weight

LARGEST_ROUNDING = {one.name: one.winograd_rounding for one in TYPES if one.winograd_tiles}
"""Largest rounding error of a layer over its largest output."""

_TILES, _CHANNELS = 16, 64
"""Random tiles of data, and channels of the output, by which rounding errors are found."""


def is_accurate(weights: Iterable[NDArray[np.float32]], transforms: Transforms, stored: str = WIDE) -> bool:
    """Whether layers with these weights round by at most LARGEST_ROUNDING; see `rounding`."""
    return all(rounding(weight, transforms, stored) <= LARGEST_ROUNDING[stored] for weight in weights)


def rounding(weight: NDArray[np.float32], transforms: Transforms, stored: str = WIDE) -> float:
    """Largest error of the algorithm in float32 over the largest output, on random normal tiles of data.

    `weight` is float32 [3, 3, in_channels, out_channels]; errors are those from float64. What is transformed
    is stored in the type `stored`.
    """
    weight = weight[..., :_CHANNELS]
    kernel = transform_weight(weight.astype(np.float64), transforms)

    def outputs(dtype: Any, kept: Any) -> NDArray[Any]:
        output = transforms.output.astype(dtype)
        data = _transformed_tiles(transforms, weight.shape[2], dtype)
        product = _kept(data, dtype, kept) @ _kept(kernel, dtype, kept)
        return np.einsum("jb,ibtc->ijtc", output, np.einsum("ia,abtc->ibtc", output, product))

    exact = outputs(np.float64, np.float64)
    largest = float(np.abs(exact).max())
    found = outputs(np.float32, data_type(stored).numpy)
    return float(np.abs(found - exact).max()) / largest if largest else 0.0


@lru_cache(maxsize=8)
def _transformed_tiles(transforms: Transforms, channels: int, dtype: Any) -> NDArray[Any]:
    """Random tiles of data, transformed: [m+2, m+2, _TILES, channels]. Layers of a network share them."""
    size, data = transforms.data_tile, transforms.data.astype(dtype)
    tiles = np.random.default_rng(0).standard_normal((size, size, _TILES, channels)).astype(dtype)
    return np.asarray(np.einsum("bx,axtc->abtc", data, np.einsum("ay,yxtc->axtc", data, tiles)))


def _kept(values: NDArray[Any], dtype: Any, kept: Any) -> NDArray[Any]:
    """Values of one type that are stored in another."""
    rounded = values.astype(dtype, copy=False)
    return rounded.astype(kept, copy=False).astype(dtype, copy=False)
