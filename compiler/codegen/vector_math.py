"""Vectorised exp, sigmoid, tanh and erf of float32, as polynomial arithmetic, and roundings in vectors.

On a CPU, TVM calls a C library for each element: GELUs alone took a seventh of the latency of BERT-base.
`vectorise_math` makes each process that compiles generate polynomials instead. This happens after scheduling:
programs, their hashes and their features do not change, and a process that compiles them without it produces
correct code, too.

Errors are at most 2.5e-7 (`exp`, `sigmoid`, if the result is a normal float32) or 4e-7 (`tanh`, `erf`)
relative to the value. Infinities and NaN give the same results as a C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr

from ..tvm_compat import dtype_as_wide
from ..types import WIDE

_Lowering: TypeAlias = Callable[[Expr], Expr]


@cache
def vectorise_math() -> None:
    """Make all code that this process generates for CPUs compute these functions in vectors."""
    # TVM does not vectorise a loop around a function that is not declared vectorisable.
    for name in ("tirx.erf", "tirx.nearbyint"):
        tvm.ir.register_op_attr(name, "TVectorizable", True, level=_LEVEL)
    for name, rule in _RULES:
        before = tvm.ir.Op.get(name).get_attr("llvm.FLowerIntrinsic")
        tirx.register_intrin_lowering(name, target="llvm", f=_rule_for_float32(rule, before), level=_LEVEL)


_LEVEL = 20
"""Priority above TVM's own rules, which have 10."""


def _rule_for_float32(rule: _Rule, otherwise: _Lowering | None) -> _Lowering:
    """Lowering rule that applies `rule` to float32 scalars and vectors, and `otherwise` to other types."""

    def lowered(call: Expr) -> Expr:
        if not _is_wide(call):
            return call if otherwise is None else otherwise(call)
        once = _Once()
        return once.before(rule(once, _with_inner_calls(once, call.args[0])))

    return lowered


def _is_wide(call: Expr) -> bool:
    return str(call.args[0].ty.dtype).partition("x")[0] == WIDE


def _with_inner_calls(once: _Once, x: Expr) -> Expr:
    """The argument of a call, with variables in place of the calls of these functions in it.

    TVM's analysis refuses a binding inside of the value of another one, as in the tanh of a sum of sigmoids.
    A call in a branch stays where it is: it may read outside of an array if it is computed always.
    """
    rules = dict(_RULES)
    calls: list[str] = []
    tvm_ffi.structural_walk(x, (Call, lambda call: calls.append(str(getattr(call.op, "name", "")))))
    if "tirx.if_then_else" in calls or rules.keys().isdisjoint(calls):
        return x

    def bound(call: Call) -> Expr:
        rule = rules.get(str(getattr(call.op, "name", "")))
        return call if rule is None or not _is_wide(call) else once(rule(once, call.args[0]))

    return tvm_ffi.structural_map(x, (Call, bound))


class _Once:
    """Collector of let bindings, so that a value is computed once even if it is used several times."""

    def __init__(self) -> None:
        self._bound: list[tuple[Expr, Expr]] = []

    def __call__(self, value: Expr) -> Expr:
        """Bind a value to a new variable."""
        variable = tirx.Var("value", value.ty)
        self._bound.append((variable, value))
        return variable

    def before(self, result: Expr) -> Expr:
        """Wrap the result in the bindings."""
        for variable, value in reversed(self._bound):
            result = tirx.Let(variable, value, result)
        return result


_Rule: TypeAlias = Callable[[_Once, Expr], Expr]
"""A function of an argument, whose intermediate values are bound once."""


def exp(once: _Once, x: Expr) -> Expr:
    """2^n * e^r with x = n * log(2) + r and |r| <= log(2) / 2, so that a Taylor series is accurate enough."""
    x = _clip(once, x, _EXP_IS_ZERO, _EXP_IS_INFINITE)
    n = once(tirx.floor(x * _like(1 / math.log(2), x) + _like(0.5, x)))
    r = once(x - n * _like(_LOG2_HIGH, x) - n * _like(math.log(2) - _LOG2_HIGH, x))
    whole = once(n.astype(dtype_as_wide("int32", n)))
    # In two steps, as 2^n alone may exceed the range of float32.
    half = once(whole >> _like(1, whole))
    return _polynomial(_TAYLOR, r) * _power_of_two(half) * _power_of_two(whole - half)


_TAYLOR = [1 / math.factorial(k) for k in range(8)]
_LOG2_HIGH = 0.693359375
"""log(2) rounded to so few bits that its product with n is exact."""
_EXP_IS_ZERO, _EXP_IS_INFINITE = -104.0, 89.0


def sigmoid(once: _Once, x: Expr) -> Expr:
    """1 / (1 + 2^n * e^r) with -x = n * log(2) + r and |r| <= log(2) / 2; no value of 2^n needs two steps.

    The addition of `_ROUND` leaves n in the low bits.
    """
    x = _clip(once, x, -_EXP_IS_INFINITE, _SIGMOID_IS_ONE)
    rounded = once(x * _like(-1 / math.log(2), x) + _like(_ROUND, x))
    n = once(rounded - _like(_ROUND, x))
    minus_r = once(x + n * _like(_LOG2_HIGH, x) + n * _like(math.log(2) - _LOG2_HIGH, x))
    bits = once(tirx.reinterpret(dtype_as_wide("int32", x), rounded))
    power = tirx.reinterpret(str(x.ty.dtype), (bits << _like(23, bits)) + _like(_ONE_BITS, bits))
    return _like(1, x) / (_like(1, x) + _polynomial(_EXP_OF_MINUS, minus_r) * power)


_SIGMOID_IS_ONE = 88.0
_ROUND = 1.5 * 2**23
"""Number whose addition rounds a float32 to a whole one."""
_ONE_BITS = 0x3F800000
"""Bits of 1.0."""
# e^-r with the smallest relative error, 2e-9.
_EXP_OF_MINUS = (1.0, -1.0, 0.49999992, -0.1666642, 0.041668226, -0.008374816, 0.0013836846)


def exp_of_negative(x: Expr, once: Callable[[Expr], Expr]) -> Expr:
    """2^n * e^r of x <= 0 as in `sigmoid`, 0 if x is below the exponents of normal numbers.

    `once` stores a value that is read several times, and returns a load of it. In one expression, TVM would
    cancel the addition of `_ROUND` by its subtraction.
    """
    x = once(x)
    rounded = once(x * _like(1 / math.log(2), x) + _like(_ROUND, x))
    n = once(rounded - _like(_ROUND, x))
    minus_r = once(n * _like(_LOG2_HIGH, x) - x + n * _like(math.log(2) - _LOG2_HIGH, x))
    bits = tirx.reinterpret(dtype_as_wide("int32", x), rounded)
    power = tirx.reinterpret(str(x.ty.dtype), (bits << _like(23, bits)) + _like(_ONE_BITS, bits))
    value = _polynomial(_EXP_OF_MINUS, minus_r) * power
    return tirx.Select(x < _like(_EXP_IS_SMALL, x), _like(0, x), value)


_EXP_IS_SMALL = -87.3
"""Argument whose exponential is about the smallest normal float32."""


def tanh(once: _Once, x: Expr) -> Expr:
    """x * P(x^2) / Q(x^2)."""
    return _odd(once, x, _TANH_IS_ONE, _TANH_P, _TANH_Q)


def erf(once: _Once, x: Expr) -> Expr:
    """x * P(x^2) / Q(x^2)."""
    return _odd(once, x, _ERF_IS_ONE, _ERF_P, _ERF_Q)


# Quotients with the smallest relative errors, 2.1e-8 and 1.9e-8, for arguments whose result is not 1.
_TANH_IS_ONE = 9.0
_TANH_P = (1.0, 0.13381025, 0.0034955868, 2.0609064e-05, 1.3354638e-08)
_TANH_Q = (1.0, 0.4671434, 0.025876977, 0.0003285633, 7.776548e-07)
_ERF_IS_ONE = 3.919206
_ERF_P = (1.1283791, 0.19037801, 0.052745637, 0.0037645735, 0.0002848906, 2.050727e-06)
_ERF_Q = (1.0, 0.5020509, 0.11409797, 0.014967112, 0.00116234, 3.8098726e-05)


_RULES: Sequence[tuple[str, _Rule]] = (
    ("tirx.exp", exp),
    ("tirx.sigmoid", sigmoid),
    ("tirx.tanh", tanh),
    ("tirx.erf", erf),
)
"""Operators, and the rules that compute them."""


def _odd(once: _Once, x: Expr, bound: float, above: Sequence[float], below: Sequence[float]) -> Expr:
    x = _clip(once, x, -bound, bound)
    square = once(x * x)
    ratio = once(x * _polynomial(above, square) / _polynomial(below, square))
    return _clip(once, ratio, -1.0, 1.0)


def _polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """Polynomial by Horner's scheme; `coefficients[k]` belongs to x^k, and `x` must be a variable."""
    result = _like(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + _like(coefficient, x)
    return result


def _clip(once: _Once, x: Expr, low: float, high: float) -> Expr:
    """Clip that keeps NaN: comparisons with it are false, which selects the second operand."""
    x = once(x)
    x = once(tirx.min(_like(high, x), x))
    return once(tirx.max(_like(low, x), x))


def _power_of_two(n: Expr) -> Expr:
    """2^n of an integer from -126 to 127, by setting the exponent bits."""
    return tirx.reinterpret(dtype_as_wide("float32", n), (n + _like(127, n)) << _like(23, n))


def _like(value: float, x: Expr) -> Expr:
    """Constant in each lane of x's type."""
    return tirx.const(value, str(x.ty.dtype))
