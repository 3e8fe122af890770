"""Winograd's minimal filtering F(m x m, 3 x 3): matrices and weights (Lavin and Gray, CVPR 2016, section 4).

Each m x m tile of outputs is A^T [(G w G^T) * (B^T d B)] A of its (m+2) x (m+2) tile of data d and the 3x3
weight w; * multiplies element by element. Summed over input channels, that product is (m+2)^2 products of
matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KERNEL = 3
"""Height and width of the weight."""


@dataclass(frozen=True, eq=False)
class Transforms:
    """Matrices of one tile size."""

    output_tile: int
    """Height and width m of a tile of outputs."""
    data: NDArray[np.floating]
    """B^T of the paper, [m+2, m+2]."""
    weight: NDArray[np.floating]
    """G of the paper, [m+2, 3]."""
    output: NDArray[np.floating]
    """A^T of the paper, [m, m+2]."""

    @property
    def data_tile(self) -> int:
        """Height and width m+2 of a tile of data."""
        return self.output_tile + KERNEL - 1


F2 = Transforms(
    2,
    data=np.array(
        [
            [1, 0, -1, 0],
            [0, 1, 1, 0],
            [0, -1, 1, 0],
            [0, 1, 0, -1],
        ]
    ),
    weight=np.array(
        [
            [1, 0, 0],
            [1 / 2, 1 / 2, 1 / 2],
            [1 / 2, -1 / 2, 1 / 2],
            [0, 0, 1],
        ]
    ),
    output=np.array(
        [
            [1, 1, 1, 0],
            [0, 1, -1, -1],
        ]
    ),
)
"""F(2x2, 3x3), section 4.1."""

F4 = Transforms(
    4,
    data=np.array(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ]
    ),
    weight=np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    ),
    output=np.array(
        [
            [1, 1, 1, 1, 1, 0],
            [0, 1, -1, 2, -2, 0],
            [0, 1, 1, 4, 4, 0],
            [0, 1, -1, 8, -8, 1],
        ]
    ),
)  # fmt: skip
"""F(4x4, 3x3), section 4.3."""

TRANSFORMS = {transforms.output_tile: transforms for transforms in (F2, F4)}
"""Transforms by the size of their output tile."""


def transform_weight(weight: NDArray[np.floating], transforms: Transforms = F4) -> NDArray[np.floating]:
    """G w G^T for each pair of channels, in double precision and rounded once.

    [3, 3, in_channels, out_channels] -> [m+2, m+2, in_channels, out_channels], in the weight's dtype.
    """
    matrix = transforms.weight
    rows = np.tensordot(matrix, weight.astype(np.float64), axes=(1, 0))  # [m+2, 3, in.., out..]
    transformed = np.tensordot(matrix, rows, axes=(1, 1)).swapaxes(0, 1)
    return np.ascontiguousarray(transformed).astype(weight.dtype)
