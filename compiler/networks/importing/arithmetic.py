"""Arithmetic that TVM's importer lacks, or computes with other roundings or constants than PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_ATEN = torch.ops.aten
_HALVES = {torch.float16, torch.bfloat16}


def _elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> torch.Tensor:
    """`elu` with all of its factors, of which TVM's importer knows the first."""
    if scale == 1 and input_scale == 1:
        return NotImplemented
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


def _selu(x: torch.Tensor) -> torch.Tensor:
    return _elu(x, 1.6732632423543772, 1.0507009873554805)


def _addmm(
    bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """`addmm` of other types than float32 as a product and a sum: TVM's importer mixes data types."""
    if bias.dtype is torch.float32:
        return NotImplemented
    product = left @ right
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (bias if beta == 1 else bias * beta)


def _sum(
    x: torch.Tensor, axes: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    """A sum of half-precision elements in float32, rounded once, as PyTorch computes it."""
    if x.dtype not in _HALVES or dtype not in (None, x.dtype):
        return NotImplemented
    return x.float().sum(list(axes or range(x.dim())), keepdim).to(x.dtype)


def _sum_of_all(x: torch.Tensor, *, dtype: Any = None) -> torch.Tensor:
    return _sum(x, dtype=dtype)


def _mean(
    x: torch.Tensor, axes: Sequence[int] | None, keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    if x.dtype not in _HALVES or dtype not in (None, x.dtype):
        return NotImplemented
    return x.float().mean(list(axes or range(x.dim())), keepdim).to(x.dtype)


def _not_equal(x: Any, other: Any) -> torch.Tensor:
    """`x != x` finds NaN; TVM folds it to False."""
    return torch.isnan(x) if other is x and x.is_floating_point() else NotImplemented


def _equal(x: Any, other: Any) -> torch.Tensor:
    return torch.logical_not(torch.isnan(x)) if other is x and x.is_floating_point() else NotImplemented


def _powers(base: int) -> torch.Tensor:
    """base ** 0 to base ** 62, int64 [63]; those that 64 bits do not hold are wrong, as PyTorch's own are."""
    factors = torch.cat([torch.ones(1, dtype=torch.int64), torch.full((62,), base, dtype=torch.int64)])
    return factors.cumprod(0)


def _shift(left: bool) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    """A shift of integers as a product or a quotient with a power of two."""

    def decompose(x: torch.Tensor, count: Any) -> torch.Tensor:
        if isinstance(count, torch.Tensor):
            chosen = count.reshape(-1).to(torch.int64)
            power: Any = _powers(2).index_select(0, chosen).reshape(count.shape)
        else:
            power = 2 ** int(count)
        wide = x.to(torch.int64)
        shifted = wide * power if left else torch.div(wide, power, rounding_mode="floor")
        return shifted.to(x.dtype)

    return decompose


def _power_of_number(base: float, exponent: torch.Tensor) -> torch.Tensor:
    """`2 ** integers` exactly, from a table; `base ** floats` by the exponential function."""
    if isinstance(base, int) and not exponent.is_floating_point():
        found = _powers(base).index_select(0, exponent.reshape(-1).to(torch.int64))
        return found.reshape(exponent.shape).to(exponent.dtype)
    if base <= 0:
        return NotImplemented
    wide = exponent if exponent.is_floating_point() else exponent.to(torch.float32)
    return torch.exp(wide * math.log(base))


def _exp2(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x * math.log(2))


def _var_mean(
    x: torch.Tensor, axes: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Variance and mean along axes, all without any."""
    chosen = list(axes) if axes else list(range(x.dim()))
    count = math.prod(x.shape[axis] for axis in chosen)
    degrees = count - (1 if correction is None else correction)
    mean = x.mean(chosen, keepdim=True)
    gap = x - mean
    squares = (gap * gap).sum(chosen, keepdim)
    variance = squares / degrees if degrees > 0 else torch.full_like(squares, math.nan)
    return variance, mean if keepdim else x.mean(chosen)


def _stable_sort(
    x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """A stable sort: TVM's sort is stable on a CPU."""
    found: tuple[torch.Tensor, torch.Tensor] = torch.sort(x, dim, descending)
    return found


def _running_extremum(largest: bool) -> Callable[[torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]:
    """Running maxima or minima of an axis and the position of the last equal one, by doubling steps."""

    def decompose(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        axis = dim % max(x.dim(), 1)
        extent = x.shape[axis]
        shape = [extent if position == axis else 1 for position in range(x.dim())]
        places = torch.arange(extent, dtype=torch.int64).reshape(shape).expand(x.shape)
        step = 1
        while step < extent:
            ahead, behind = x.narrow(axis, step, extent - step), x.narrow(axis, 0, extent - step)
            at, before = places.narrow(axis, step, extent - step), places.narrow(axis, 0, extent - step)
            keeps = ahead >= behind if largest else ahead <= behind
            x = torch.cat([x.narrow(axis, 0, step), torch.where(keeps, ahead, behind)], axis)
            places = torch.cat([places.narrow(axis, 0, step), torch.where(keeps, at, before)], axis)
            step *= 2
        return x, places

    return decompose


def _histogram(x: torch.Tensor, bins: int = 100, low: float = 0, high: float = 0) -> torch.Tensor:
    """Counts of elements in equal bins between given ends, as routing of mixtures of experts asks for."""
    if low == high:
        return NotImplemented
    flat = x.reshape(-1).to(torch.float32)
    place = torch.floor((flat - low) * (bins / (high - low))).clamp(0, bins - 1).to(torch.int64)
    inside = ((flat >= low) & (flat <= high)).to(torch.float32)
    hits = (place[:, None] == torch.arange(bins)).to(torch.float32) * inside[:, None]
    return hits.sum(0).to(x.dtype)


def _concatenated(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """A concatenation without empty operands of one dimension, which PyTorch skips."""
    kept = [one for one in tensors if not (one.dim() == 1 and one.shape[0] == 0)]
    if len(kept) == len(tensors) or not kept:
        return NotImplemented
    return kept[0] if len(kept) == 1 else torch.cat(kept, dim)


def _group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    positions: int,
    groups: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Group norm without weights as one with ones and zeros, which TVM's importer requires."""
    if weight is not None and bias is not None:
        return NotImplemented
    ones = torch.ones(channels, dtype=x.dtype) if weight is None else weight
    zeros = torch.zeros(channels, dtype=x.dtype) if bias is None else bias
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _ATEN.native_group_norm.default(
        x, ones, zeros, batch, channels, positions, groups, eps
    )
    return found


def _kth_value(
    x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.sort(x, dim)
    found = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _log_cumulative_sum(x: torch.Tensor, dim: int) -> torch.Tensor:
    """log(cumsum(exp(x))), shifted by the largest element so that nothing overflows."""
    largest = x.amax(dim, keepdim=True)
    return torch.log(torch.exp(x - largest).cumsum(dim)) + largest


def _distances(left: torch.Tensor, right: torch.Tensor, p: float, mode: int | None = None) -> torch.Tensor:
    """Distances of all pairs of rows by the p-norm."""
    gap = (left.unsqueeze(-2) - right.unsqueeze(-3)).abs()
    if p == 0:
        return (gap > 0).to(left.dtype).sum(-1)
    if math.isinf(p):
        return gap.amax(-1)
    if p == 1:
        return gap.sum(-1)
    return (gap * gap).sum(-1).sqrt() if p == 2 else (gap**p).sum(-1) ** (1 / p)


def _rrelu(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    *_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In evaluation mode, a leaky ReLU with the mean slope."""
    if training:
        return NotImplemented
    return torch.where(x >= 0, x, x * ((lower + upper) / 2)), noise


def _hypotenuse(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * x + y * y).sqrt()


def _sign_bit(x: torch.Tensor) -> torch.Tensor:
    """Whether a number is below zero or a negative zero."""
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


def _copy_sign(x: torch.Tensor, y: Any) -> torch.Tensor:
    if not isinstance(y, torch.Tensor) or not x.is_floating_point():
        return NotImplemented
    return torch.where(_sign_bit(y), -x.abs(), x.abs())


def _ignoring_nan(extremum: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The other number of a pair with one NaN."""

    def decompose(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = torch.broadcast_tensors(x, y)
        return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, extremum(x, y)))

    return decompose


def _remainder_of_number(number: float, x: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(number, x)
    return torch.remainder(torch.full(x.shape, number, dtype=dtype, device=x.device), x.to(dtype))


def _full_like(x: torch.Tensor, value: float, *, dtype: Any = None, **_: Any) -> torch.Tensor:
    """A tensor of infinities or NaN as a constant: TVM cannot lower its own operator for them."""
    if not isinstance(value, float) or math.isfinite(value):
        return NotImplemented
    return torch.full((), value, dtype=dtype or x.dtype, device=x.device).expand(x.shape)


def _clamp(x: torch.Tensor, low: Any = None, high: Any = None) -> torch.Tensor:
    """Integers with one bound: TVM takes an infinite other one and cannot lower it."""
    if x.is_floating_point() or (low is None) == (high is None):
        return NotImplemented
    bound = torch.full((), low if high is None else high)
    x = x.to(torch.result_type(x, bound))
    return torch.where(x < bound if high is None else x > bound, bound.to(x.dtype), x)


def _norm(
    x: torch.Tensor,
    order: float = 2,
    axes: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> torch.Tensor:
    """The number of elements that are not zero, for order 0."""
    if order != 0:
        return NotImplemented
    counted = (x != 0).to(dtype or x.dtype)
    return counted.sum(list(axes) if axes is not None else list(range(x.dim())), keepdim)


def _integer_power(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """A power of integers by its exponent's bits; 0 for a negative exponent, but for bases 1 and -1."""
    if x.is_floating_point() or exponent.is_floating_point():
        return NotImplemented
    dtype = torch.result_type(x, exponent)
    base, rest = torch.broadcast_tensors(x.to(dtype), exponent.to(dtype))
    first, negative, odd = base, rest < 0, torch.remainder(rest, 2) != 0
    found = torch.ones_like(base)
    rest = rest.abs()
    for _ in range(6):
        found = torch.where(torch.remainder(rest, 2) != 0, found * base, found)
        rest, base = torch.div(rest, 2, rounding_mode="floor"), base * base
    of_minus_1 = torch.where(odd, -torch.ones_like(first), torch.ones_like(first))
    inverse = torch.where(first == -1, of_minus_1, (first == 1).to(dtype))
    return torch.where(negative, inverse, found)


ARITHMETIC: Mapping[Any, Callable[..., Any]] = {
    _ATEN.elu.default: _elu,
    _ATEN.selu.default: _selu,
    _ATEN.addmm.default: _addmm,
    _ATEN.sum.default: _sum_of_all,
    _ATEN.sum.dim_IntList: _sum,
    _ATEN.mean.dim: _mean,
    _ATEN.ne.Tensor: _not_equal,
    _ATEN.eq.Tensor: _equal,
    _ATEN.bitwise_left_shift.Tensor: _shift(left=True),
    _ATEN.bitwise_left_shift.Tensor_Scalar: _shift(left=True),
    _ATEN.bitwise_right_shift.Tensor: _shift(left=False),
    _ATEN.bitwise_right_shift.Tensor_Scalar: _shift(left=False),
    _ATEN.__lshift__.Tensor: _shift(left=True),
    _ATEN.__lshift__.Scalar: _shift(left=True),
    _ATEN.__rshift__.Tensor: _shift(left=False),
    _ATEN.__rshift__.Scalar: _shift(left=False),
    _ATEN.pow.Scalar: _power_of_number,
    _ATEN.exp2.default: _exp2,
    _ATEN.var_mean.correction: _var_mean,
    _ATEN.sort.stable: _stable_sort,
    _ATEN.cummax.default: _running_extremum(largest=True),
    _ATEN.cummin.default: _running_extremum(largest=False),
    _ATEN.histc.default: _histogram,
    _ATEN.cat.default: _concatenated,
    _ATEN.kthvalue.default: _kth_value,
    _ATEN.logcumsumexp.default: _log_cumulative_sum,
    _ATEN._cdist_forward.default: _distances,
    _ATEN.rrelu_with_noise_functional.default: _rrelu,
    _ATEN.hypot.default: _hypotenuse,
    _ATEN.signbit.default: _sign_bit,
    _ATEN.full_like.default: _full_like,
    _ATEN.clamp.default: _clamp,
    _ATEN.linalg_vector_norm.default: _norm,
    _ATEN.pow.Tensor_Tensor: _integer_power,
    _ATEN.copysign.Tensor: _copy_sign,
    _ATEN.fmax.default: _ignoring_nan(torch.maximum),
    _ATEN.fmin.default: _ignoring_nan(torch.minimum),
    _ATEN.remainder.Scalar_Tensor: _remainder_of_number,
    _ATEN.native_group_norm.default: _group_norm,
}
"""Decompositions of arithmetic."""
