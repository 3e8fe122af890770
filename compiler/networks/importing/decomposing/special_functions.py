"""Special functions by series in float32 or float64 operations, which TVM lacks.

Each is accurate to a few units in the last place of float32 over its range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

_ATEN = torch.ops.aten

_LANCZOS = (
    *(676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)
"""Coefficients of Lanczos' series with g = 7 and 9 terms, of which the first is 1."""

_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)
"""Coefficients of 1 / x^2, 1 / x^4, ... of log(x) - 1 / (2 x) - digamma(x)."""

_SMALL_I0 = (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813)
_LARGE_I0 = (
    *(0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281),
    *(-0.02057706, 0.02635537, -0.01647633, 0.00392377),
)
"""Polynomials of Abramowitz and Stegun 9.8.1 and 9.8.2: in (x / 3.75)^2, and in 3.75 / x."""


def _in_double(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Computes in float64 and rounds once."""

    def decompose(x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.float32
        return function(x.to(torch.float64)).to(dtype)

    return decompose


def _log_gamma(x: torch.Tensor) -> torch.Tensor:
    """log|gamma(x)| by Lanczos' series, reflected for x < 0.5; infinite at the poles."""
    reflected = x < 0.5
    y = torch.where(reflected, 1 - x, x) - 1
    series: Any = 0.99999999999980993
    for number, coefficient in enumerate(_LANCZOS, 1):
        series = series + coefficient / (y + number)
    t = y + 7.5
    # Large arguments: the series is near 1, so that no sum of large terms cancels.
    found = 0.5 * math.log(2 * math.pi) + (y + 0.5) * torch.log(t) - t + torch.log(series)
    sine = torch.sin(math.pi * (x - torch.floor(x))).abs()
    return torch.where(reflected, math.log(math.pi) - torch.log(sine) - found, found)


def _digamma(x: torch.Tensor) -> torch.Tensor:
    """Eight steps of the recurrence, then the asymptotic series; reflected below zero."""
    negative = x <= 0
    y = torch.where(negative, 1 - x, x)
    lowered = torch.zeros_like(y)
    for _ in range(8):
        small = y < 8
        lowered = lowered + torch.where(small, 1 / y, torch.zeros_like(y))
        y = torch.where(small, y + 1, y)
    square = 1 / (y * y)
    series = torch.zeros_like(y)
    for coefficient in reversed(_DIGAMMA):
        series = (series + coefficient) * square
    found = torch.log(y) - 0.5 / y - series - lowered
    turned = math.pi * (x - torch.floor(x))
    at_pole = negative & (x == torch.floor(x))
    reflected = found - math.pi * torch.cos(turned) / torch.sin(turned)
    reflected = torch.where(at_pole, torch.full_like(x, math.nan), reflected)
    return torch.where(x == 0, -math.inf * torch.ones_like(x), torch.where(negative, reflected, found))


def _inverse_error(x: torch.Tensor) -> torch.Tensor:
    """Winitzki's approximation and three steps of Newton's method; infinite at both ends."""
    ends = x.abs() >= 1
    inside = torch.where(ends, torch.zeros_like(x), x)
    logarithm = torch.log1p(-inside * inside)
    first = 2 / (math.pi * 0.147) + logarithm / 2
    y = torch.sign(inside) * torch.sqrt(torch.sqrt(first * first - logarithm / 0.147) - first)
    for _ in range(3):
        y = y - (torch.erf(y) - inside) * (math.sqrt(math.pi) / 2) * torch.exp(y * y)
    outside = torch.where(x.abs() == 1, x * math.inf, torch.full_like(x, math.nan))
    return torch.where(ends, outside, y)


def _bessel_i0(x: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    small = (torch.clamp(size, max=3.75) / 3.75).square()
    inverse = 3.75 / torch.clamp(size, min=3.75)
    near, far = torch.zeros_like(x), torch.zeros_like(x)
    for coefficient in reversed(_SMALL_I0):
        near = near * small + coefficient
    for coefficient in reversed(_LARGE_I0):
        far = far * inverse + coefficient
    return torch.where(size < 3.75, near, far * torch.exp(size) / torch.sqrt(torch.clamp(size, min=3.75)))


def _complementary_error(x: torch.Tensor) -> torch.Tensor:
    return 1 - torch.erf(x)


def _normal_quantile(x: torch.Tensor) -> torch.Tensor:
    return math.sqrt(2) * _inverse_error(2 * x - 1)


SPECIAL_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    _ATEN.lgamma.default: _in_double(_log_gamma),
    _ATEN.digamma.default: _in_double(_digamma),
    _ATEN.erfinv.default: _in_double(_inverse_error),
    _ATEN.erfc.default: _in_double(_complementary_error),
    _ATEN.special_ndtri.default: _in_double(_normal_quantile),
    _ATEN.i0.default: _in_double(_bessel_i0),
}
"""Decompositions of special functions."""
