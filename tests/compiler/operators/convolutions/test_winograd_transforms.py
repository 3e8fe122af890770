"""Winograd's transforms on one tile by hand, and against the convolution."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators.convolutions.winograd import F2, F4, TRANSFORMS, Transforms, transform_weight


def tile_of(transforms: Transforms, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    moved = transforms.data @ data @ transforms.data.T
    product = moved * transform_weight(weight[..., None, None], transforms)[..., 0, 0]
    return transforms.output @ product @ transforms.output.T


def test_a_tile_by_hand() -> None:
    # Rows of ones over a weight whose only element, in its centre, is 2: each output is 2.
    data, weight = np.ones((4, 4)), np.zeros((3, 3))
    weight[1, 1] = 2.0
    # B^T has the row sums 0, 2, 0, 0, so that the transformed data have 4 at (1, 1) alone.
    moved = F2.data @ data @ F2.data.T
    assert moved[1, 1] == 4 and np.count_nonzero(moved) == 1
    # G (0, 2, 0)^T is 2 * (0, 1/2, -1/2, 0), and along the other axis 1/2 of that: 1/2 at (1, 1).
    transformed = transform_weight(weight[..., None, None], F2)[..., 0, 0]
    assert transformed[1, 1] == 0.5 and transformed[1, 2] == -0.5 and transformed[0, 0] == 0
    # The product is 4 * 1/2 = 2 at (1, 1), which A^T of (1, 0) there and (1, 1) here leaves in each output.
    assert F2.output[:, 1].tolist() == [1, 1]
    assert tile_of(F2, data, weight).tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("transforms", [F2, F4], ids=["F2", "F4"])
def test_a_tile_is_the_convolution(transforms: Transforms) -> None:
    rng = np.random.default_rng(0)
    size = transforms.data_tile
    data, weight = rng.standard_normal((size, size)), rng.standard_normal((3, 3))
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3))
    expected = np.einsum("yxij,ij->yx", windows, weight)
    np.testing.assert_allclose(tile_of(transforms, data, weight), expected, rtol=1e-9, atol=1e-9)


def test_a_weight_keeps_its_type_and_is_rounded_once() -> None:
    weight = np.full((3, 3, 2, 4), 1 / 3, np.float32)
    transformed = transform_weight(weight, F4)
    assert transformed.shape == (6, 6, 2, 4) and transformed.dtype == np.float32
    exact = transform_weight(weight.astype(np.float64), F4)
    assert np.array_equal(transformed, exact.astype(np.float32))


def test_transforms_are_known_by_their_tile() -> None:
    assert {size: transforms.data_tile for size, transforms in TRANSFORMS.items()} == {2: 4, 4: 6}
