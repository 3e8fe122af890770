"""Gathering and scattering, and sums by groups."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .making import MATRIX, Table, integers, normal, uniform

INDEX = integers(4, 3, high=5)
UNIQUE = torch.tensor([[0, 2, 4], [1, 0, 3], [4, 3, 2], [2, 1, 0]])
SOURCE = normal(4, 3)


def routed(x: torch.Tensor) -> torch.Tensor:
    """Weights of the two best experts of each token, zero elsewhere."""
    weights, chosen = x.softmax(-1).topk(2, -1)
    return torch.zeros_like(x).scatter(1, chosen, weights)


TABLE: Table = {
    "gather": (lambda x, i: x.gather(1, i), MATRIX, INDEX),
    "gather_rows": (lambda x, i: x.gather(0, i), MATRIX, integers(2, 5, high=4)),
    "gather_expanded": (lambda x, i: x.gather(1, i[:, None].expand(-1, 3)), MATRIX, integers(4, high=5)),
    "scatter": (lambda x, i, s: x.scatter(1, i, s), MATRIX, UNIQUE, SOURCE),
    "scatter_number": (lambda x, i: x.scatter(1, i, 1.5), MATRIX, INDEX),
    "scatter_in_place": (lambda x, i, s: x.clone().scatter_(1, i, s), MATRIX, UNIQUE, SOURCE),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), MATRIX, INDEX, SOURCE),
    "scatter_add_option": (lambda x, i, s: x.scatter(1, i, s, reduce="add"), MATRIX, INDEX, SOURCE),
    "scatter_multiply_option": (lambda x, i, s: x.scatter(1, i, s, reduce="multiply"), MATRIX, INDEX, SOURCE),
    "scatter_number_add": (lambda x, i: x.scatter(1, i, 2.0, reduce="add"), MATRIX, INDEX),
    "scatter_sum": (lambda x, i, s: x.scatter_reduce(1, i, s, "sum"), MATRIX, INDEX, SOURCE),
    "scatter_mean": (lambda x, i, s: x.scatter_reduce(1, i, s, "mean"), MATRIX, INDEX, SOURCE),
    "scatter_amax": (lambda x, i, s: x.scatter_reduce(1, i, s, "amax"), MATRIX, INDEX, SOURCE),
    "scatter_amin_without_self": (
        lambda x, i, s: x.scatter_reduce(1, i, s, "amin", include_self=False),
        MATRIX,
        INDEX,
        SOURCE,
    ),
    "scatter_prod": (lambda x, i, s: x.scatter_reduce(1, i, s, "prod"), MATRIX, INDEX, SOURCE),
    "index_reduce": (
        lambda x, i, s: x.index_reduce(0, i, s, "amax"),
        MATRIX,
        torch.tensor([0, 2, 2]),
        normal(3, 5),
    ),
    "one_hot": (lambda i: F.one_hot(i, 7), integers(5, high=7)),
    "one_hot_by_scatter": (
        lambda i: torch.zeros(5, 7).scatter(1, i[:, None], 1.0),
        integers(5, high=7),
    ),
    "bincount": (lambda i: torch.bincount(i, minlength=9), integers(12, high=9)),
    "histc": (lambda x: torch.histc(x, 6, -2, 2), normal(50)),
    "histogram_of_experts": (lambda i: torch.histc(i.float(), 8, 0, 7), integers(20, high=8)),
    "routing": (routed, normal(6, 8)),
    "sums_of_groups": (
        lambda x, i: torch.zeros(4, 3).index_add(0, i, x),
        normal(10, 3),
        integers(10, high=4),
    ),
    "means_of_groups": (
        lambda x, i: torch.zeros(4, 3).scatter_reduce(
            0, i[:, None].expand(-1, 3), x, "mean", include_self=False
        ),
        normal(10, 3),
        integers(10, high=4),
    ),
    "message_passing": (
        lambda x, a, b: torch.zeros_like(x).index_add(0, b, torch.relu(x[a])),
        normal(6, 4),
        integers(9, high=6),
        integers(9, high=6, seed=1),
    ),
    "put": (lambda x, i, v: x.clone().put_(i, v), MATRIX, torch.tensor([0, 7, 3]), normal(3)),
    "bucketize": (lambda x, e: torch.bucketize(x, e), uniform(9, low=-3, high=3), torch.tensor([-1.0, 0, 1])),
    "searchsorted": (
        lambda e, x: torch.searchsorted(e, x, right=True),
        torch.tensor([-1.0, 0.0, 0.5, 1.0]),
        uniform(9, low=-3, high=3),
    ),
    "unique": (lambda x: torch.unique(x), integers(9, high=4)),
    "masked_scatter": (lambda x, s: x.masked_scatter(x > 0, s), MATRIX, normal(4, 5, seed=3)),
}
