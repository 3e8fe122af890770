"""Special functions, scattering, ordering and linear algebra, against PyTorch's operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from foretune.compiler.networks.importing.decompositions import OWN

ATEN = torch.ops.aten


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


WIDE = torch.cat([torch.linspace(-6.3, 8, 301), torch.tensor([0.5, 1, 2, 30, 1000.0, 1e-3, -0.5])])
UNIT = torch.cat([torch.linspace(-1, 1, 201), torch.tensor([0.999999, -0.9999999, 1e-6, 2.0])])
SPECIAL = torch.tensor([0.0, -0.0, 1.5, torch.inf, -torch.inf, torch.nan, -2.5])
MATRIX, INDEX, SOURCE = normal(4, 5), torch.tensor([[0, 2, 2], [4, 4, 4], [1, 0, 1], [3, 2, 0]]), normal(4, 3)
EDGES = torch.tensor([-1.0, 0.0, 0.0, 2.0])

CASES: dict[str, tuple[Any, ...]] = {
    "lgamma": (ATEN.lgamma.default, WIDE),
    "digamma": (ATEN.digamma.default, torch.cat([WIDE, torch.tensor([0.0, -1.0, -2.0])])),
    "erfinv": (ATEN.erfinv.default, UNIT),
    "erfc": (ATEN.erfc.default, torch.linspace(-4, 4, 50)),
    "ndtri": (ATEN.special_ndtri.default, UNIT.abs()),
    "i0": (ATEN.i0.default, torch.linspace(-20, 20, 101)),
    "norm of order 0": (ATEN.linalg_vector_norm.default, normal(3, 4).round(), 0, [1]),
    "power of integers": (
        ATEN.pow.Tensor_Tensor,
        torch.tensor([[2, -3, 1, -1, 0]]),
        torch.tensor([[5], [0], [-2], [-3], [40]]).clamp(max=38),
    ),
    "full of infinities": (ATEN.full_like.default, MATRIX, -torch.inf),
    "signbit": (ATEN.signbit.default, SPECIAL[:5]),
    "copysign": (ATEN.copysign.Tensor, normal(5), SPECIAL[:5]),
    "fmax": (ATEN.fmax.default, SPECIAL, torch.zeros(7)),
    "remainder of a number": (ATEN.remainder.Scalar_Tensor, 7, torch.tensor([2, -3, 5])),
    "sum by an option": (ATEN.scatter.reduce, MATRIX, 1, INDEX, SOURCE, {"reduce": "add"}),
    "product of a number": (ATEN.scatter.value_reduce, MATRIX, 1, INDEX, 2.0, {"reduce": "multiply"}),
    "mean": (ATEN.scatter_reduce.two, MATRIX, 1, INDEX, SOURCE, "mean"),
    "mean without self": (ATEN.scatter_reduce.two, MATRIX, 1, INDEX, SOURCE, "mean", {"include_self": False}),
    "least without self": (
        ATEN.scatter_reduce.two,
        MATRIX,
        1,
        INDEX,
        SOURCE,
        "amin",
        {"include_self": False},
    ),
    "largest of rows": (ATEN.index_reduce.default, MATRIX, 0, torch.tensor([0, 2, 2]), normal(3, 5), "amax"),
    "put": (ATEN.put.default, MATRIX, torch.tensor([0, -1, 3]), normal(3)),
    "put, summed": (ATEN.put.default, MATRIX, torch.tensor([3, 3, 3]), normal(3), True),
    "masked scatter": (ATEN.masked_scatter.default, MATRIX, MATRIX > 0, normal(20)),
    "overlapping frames": (ATEN.as_strided.default, normal(12), [4, 5], [2, 1], 1),
    "minimum": (ATEN.min.dim, MATRIX, 1),
    "minimum of bytes": (ATEN.min.dim, torch.tensor([[0, 200], [3, 1]], dtype=torch.uint8), 0, True),
    "median without NaN": (ATEN.nanmedian.dim, torch.stack([SPECIAL, SPECIAL * torch.nan]), 1),
    "search": (ATEN.searchsorted.Tensor, EDGES, torch.tensor([[-2.0, 0.0], [1.0, 5.0]])),
    "search to the right": (ATEN.searchsorted.Tensor, EDGES, torch.tensor([0.0, -1.0]), {"right": True}),
    "search by rows": (ATEN.searchsorted.Tensor, EDGES.expand(2, 4), torch.tensor([[0.5], [3.0]])),
    "covariance": (ATEN.cov.default, MATRIX),
    "correlation": (ATEN.corrcoef.default, MATRIX),
    "diagonal": (ATEN.diagonal_scatter.default, MATRIX, torch.arange(3.0), -1),
    "diagonal of others": (ATEN.diagonal_scatter.default, normal(2, 3, 4), normal(3, 2), 1, 0, 2),
    "time first": (ATEN.conv_tbc.default, normal(7, 2, 4), normal(3, 4, 5), normal(5), 1),
    "lower triangle": (
        ATEN.linalg_solve_triangular.default,
        torch.tril(normal(4, 4)) + 3 * torch.eye(4),
        normal(4, 2),
        {"upper": False},
    ),
    "upper triangle": (
        ATEN.linalg_solve_triangular.default,
        torch.triu(normal(4, 4)) + 3 * torch.eye(4),
        normal(4, 2),
        {"upper": True, "unitriangular": True},
    ),
    "transposed convolution of a volume": (
        ATEN.convolution.default,
        *(normal(1, 4, 3, 2, 3), normal(4, 3, 3, 2, 3), normal(6)),
        *([2, 1, 3], [1, 0, 2], [1, 2, 1], True, [1, 0, 2], 2),
    ),
    "sum of products": (
        ATEN.addbmm.default,
        *(normal(4, 2), normal(3, 4, 5), normal(3, 5, 2), {"beta": 0.5, "alpha": 2}),
    ),
    "divisor of a volume": (
        ATEN.avg_pool3d.default,
        *(normal(1, 2, 5, 6, 7), [2, 3, 2], [2], [1, 1, 0], True, True, 3),
    ),
    "sampled volume": (
        ATEN.grid_sampler_3d.default,
        *(normal(2, 3, 4, 5, 6), torch.rand(2, 2, 3, 4, 3) * 2.6 - 1.3, 0, 0, False),
    ),
    "nearest of a sampled volume": (
        ATEN.grid_sampler_3d.default,
        *(normal(2, 3, 4, 5, 6), torch.rand(2, 2, 3, 4, 3) * 2.6 - 1.3, 1, 1, True),
    ),
    "cells of a volume": (ATEN.adaptive_max_pool3d.default, normal(1, 2, 5, 6, 7), [2, 3, 4]),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_the_decomposition_has_pytorchs_values(case: tuple[Any, ...]) -> None:
    operator, *arguments = case
    options = arguments.pop() if isinstance(arguments[-1], dict) else {}
    expected, found = operator(*arguments, **options), OWN[operator](*arguments, **options)
    if operator is ATEN.min.dim or operator is ATEN.nanmedian.dim:
        expected = tuple(expected)
    if operator is ATEN.nanmedian.dim:  # positions in a row without a number are arbitrary
        expected, found = expected[0], found[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
