"""Element-wise arithmetic."""

from __future__ import annotations

import torch

from .making import MATRIX, Table, booleans, integers, normal, uniform

OTHER = normal(4, 5, seed=1)
UNIT = uniform(4, 5, low=-0.95, high=0.95)
ABOVE = uniform(4, 5, low=0.1, high=4)
NUMBERS, COUNTS = integers(4, 5, low=-9, high=9), integers(4, 5, low=1, high=5, seed=1)
SPECIAL = torch.tensor([0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), -2.5, 3.5])

UNARY = {
    name: getattr(torch, name)
    for name in (
        *("abs", "neg", "exp", "expm1", "exp2", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh"),
        *("erf", "erfc", "sigmoid", "sign", "signbit", "sgn", "floor", "ceil", "round", "trunc", "frac"),
        *("square", "positive", "deg2rad", "rad2deg", "sinc", "i0", "isnan", "isinf", "isfinite", "isneginf"),
    )
}
OF_POSITIVE = {
    name: getattr(torch, name)
    for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma", "acosh")
}
OF_UNIT = {
    name: getattr(torch, name) for name in ("asin", "acos", "atanh", "erfinv", "logit", "arcsin", "arccos")
}

TABLE: Table = {
    **{name: (function, MATRIX) for name, function in UNARY.items()},
    **{name: (function, ABOVE + (1 if name == "acosh" else 0)) for name, function in OF_POSITIVE.items()},
    **{name: (function, UNIT.abs() if name == "logit" else UNIT) for name, function in OF_UNIT.items()},
    "special_values": (lambda x: (x.exp(), x.sign(), x.relu(), x.clamp(-1, 1), x.round()), SPECIAL),
    "nan_to_num": (lambda x: torch.nan_to_num(x, 0.5, 9.0), SPECIAL),
    "differs_from_itself": (lambda x: x != x, SPECIAL),
    "round_decimals": (lambda x: torch.round(x, decimals=2), MATRIX),
    "multigammaln": (lambda x: torch.special.multigammaln(x + 2, 2), ABOVE),
    "polygamma": (lambda x: torch.polygamma(1, x), ABOVE),
    "ndtri": (lambda x: torch.special.ndtri(x.abs()), UNIT),
    "entr": (lambda x: torch.special.entr(x), ABOVE),
    "xlogy": (lambda x: torch.xlogy(x, x), ABOVE),
    "add_scaled": (lambda x, y: torch.add(x, y, alpha=0.3), MATRIX, OTHER),
    "sub_scaled": (lambda x, y: torch.sub(x, y, alpha=2), MATRIX, OTHER),
    "number_minus": (lambda x: 1 - x, MATRIX),
    "number_over": (lambda x: 2 / x, ABOVE),
    "broadcast": (lambda x, y: x * y, MATRIX, normal(4, 1)),
    "broadcast_more_axes": (lambda x, y: x[None] - y[:, None], MATRIX, OTHER),
    "div_floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), MATRIX, ABOVE),
    "div_trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), MATRIX, ABOVE),
    "floor_divide_integers": (lambda x, y: x // y, NUMBERS, COUNTS),
    "trunc_divide_integers": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), NUMBERS, COUNTS),
    "true_divide_integers": (lambda x, y: x / y, NUMBERS, COUNTS),
    "remainder": (lambda x, y: x % y, MATRIX, ABOVE),
    "remainder_of_integers": (lambda x, y: x % y, NUMBERS, COUNTS),
    "remainder_of_number": (lambda x: 7 % x, COUNTS),
    "fmod": (lambda x, y: torch.fmod(x, y), MATRIX, ABOVE),
    "pow": (lambda x, y: x**y, ABOVE, MATRIX),
    "pow_half": (lambda x: x**0.5, ABOVE),
    "pow_minus_1": (lambda x: x**-1, ABOVE),
    "pow_of_negative_base": (lambda x: x**3, MATRIX),
    "power_of_2": (lambda x: 2**x, COUNTS),
    "power_of_float": (lambda x: 0.5**x, MATRIX),
    "pow_of_integers": (lambda x, y: x**y, NUMBERS, COUNTS),
    "atan2": (lambda x, y: torch.atan2(x, y), MATRIX, OTHER),
    "hypot": (lambda x, y: torch.hypot(x, y), MATRIX, OTHER),
    "copysign": (lambda x, y: torch.copysign(x, y), MATRIX, OTHER),
    "ldexp": (lambda x, y: torch.ldexp(x, y), MATRIX, COUNTS),
    "logaddexp": (lambda x, y: torch.logaddexp(x, y), MATRIX, OTHER),
    "logaddexp2": (lambda x, y: torch.logaddexp2(x, y), MATRIX, OTHER),
    "maximum": (lambda x, y: torch.maximum(x, y), MATRIX, OTHER),
    "minimum": (lambda x, y: torch.minimum(x, y), MATRIX, OTHER),
    "maximum_of_nan": (lambda x: torch.maximum(x, torch.zeros(8)), SPECIAL),
    "fmax": (lambda x: torch.fmax(x, torch.zeros(8)), SPECIAL),
    "clamp": (lambda x: x.clamp(-0.5, 0.7), MATRIX),
    "clamp_min": (lambda x: x.clamp(min=0.1), MATRIX),
    "clamp_by_tensors": (lambda x, y: torch.clamp(x, y - 1, y), MATRIX, OTHER),
    "clamp_of_integers": (lambda x: x.clamp(0, 3), NUMBERS),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), MATRIX, OTHER),
    "lerp_by_tensor": (lambda x, y, w: torch.lerp(x, y, w), MATRIX, OTHER, ABOVE),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), MATRIX, OTHER),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=2), MATRIX, OTHER, ABOVE),
    "heaviside": (lambda x: torch.heaviside(x, torch.tensor(0.5)), SPECIAL[:5]),
    "float_power": (lambda x: torch.float_power(x, 2), MATRIX),
    "nextafter": (lambda x, y: torch.nextafter(x, y), MATRIX, OTHER),
    "gcd": (lambda x, y: torch.gcd(x, y), NUMBERS, COUNTS),
    "where": (lambda x, y: torch.where(x > y, x, y), MATRIX, OTHER),
    "where_of_number": (lambda x: torch.where(x > 0, x, 0.0), MATRIX),
    "compare": (lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y), NUMBERS, COUNTS),
    "isclose": (lambda x, y: torch.isclose(x, y, atol=0.5), MATRIX, OTHER),
    "equal": (lambda x, y: torch.equal(x, y) + x, MATRIX, OTHER),
    "logical": (lambda a, b: (a & b, a | b, a ^ b, ~a), booleans(3, 4), booleans(3, 4, seed=1)),
    "logical_of_floats": (lambda x, y: torch.logical_and(x, y > 0), MATRIX.round(), OTHER),
    "logical_xor": (lambda x, y: torch.logical_xor(x > 0, y > 0), MATRIX, OTHER),
    "bitwise": (lambda a, b: (a & b, a | b, a ^ b, ~a), NUMBERS, COUNTS),
    "shift_left": (lambda x, y: x << y, COUNTS, COUNTS),
    "shift_right": (lambda x: x >> 2, NUMBERS),
    "abs_of_integers": (lambda x: x.abs(), NUMBERS),
    "vander_by_powers": (lambda x: x[:, None] ** torch.arange(4), normal(5)),
}
