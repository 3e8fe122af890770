"""Comparison of a function with the problem that it was recognised as, on random numbers on this CPU.

Recognition guesses by the form of a function's steps. The values decide, so that a template never takes the
place of something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import tirx

from ...operators.shared.tir import extents
from ...types import numpy_type
from .attention import Attention, Layout
from .epilogue import REFERENCES
from .problem import Problem, Product
from .rows import NormedProduct, Rows

TOLERANCE = 4e-2
"""Largest difference over the largest value: bfloat16 has 8 bits, and steps between are rounded to it."""

MASKED = 0.2
"""Share of a mask's elements that are minus infinity."""


Array = NDArray[Any]


def computes(func: tirx.PrimFunc, problem: Problem, parameters: Sequence[int]) -> bool:
    """Whether a function without a schedule computes a problem, up to rounding.

    Args:
        func: the function; its last parameter is the output.
        problem: attention, a product or normalised rows.
        parameters: parameter of the function for each of the problem's `pointers`.
    """
    arrays = _inputs(func, problem, parameters)
    shape, dtype = extents(func.params[-1]), str(func.params[-1].dtype)
    output = tvm.runtime.empty(shape, dtype)
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    try:
        built = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target="llvm")
        built["main"](*tensors, output)
    except Exception:  # code generation raises many types
        return False
    wide = dict(
        zip(problem.pointers[:-1], (arrays[n].astype(np.float64) for n in parameters[:-1]), strict=True)
    )
    found, expected = output.numpy().astype(np.float64).ravel(), reference(problem, wide).ravel()
    return bool(np.all(np.abs(found - expected) <= TOLERANCE * np.abs(expected).max()))


def reference(problem: Problem, arrays: dict[str, Array]) -> Array:
    """The problem's output in float64, from its arrays by name."""
    if isinstance(problem, Attention):
        return _attention(problem, arrays)
    if isinstance(problem, Product):
        sums = arrays["left"].reshape(problem.m, problem.k) @ arrays["right"].reshape(problem.k, problem.n)
    else:
        assert isinstance(problem, Rows)
        sums = arrays["data"].reshape(problem.m, problem.n)
    sums = sums + arrays.get("bias", 0.0)
    if "residual" in arrays:
        sums = sums + arrays["residual"].reshape(sums.shape)
    sums = REFERENCES[problem.activation](sums)
    if isinstance(problem, Rows) and problem.norm == "softmax":
        return _softmax(sums)
    if isinstance(problem, NormedProduct | Rows):
        apart = sums - sums.mean(-1, keepdims=True)
        deviation = np.sqrt((apart**2).mean(-1, keepdims=True) + problem.epsilon)
        return apart / deviation * arrays["scale"] + arrays["shift"]
    return sums


def _attention(problem: Attention, arrays: dict[str, Array]) -> Array:
    def view(name: str, layout: Layout, rows: int, columns: int) -> Array:
        flat = np.ascontiguousarray(arrays[name]).ravel()[layout.start :]
        bytes_ = [flat.itemsize * stride for stride in (layout.batch, layout.head, layout.row, 1)]
        return np.lib.stride_tricks.as_strided(
            flat, (problem.batch, problem.heads, rows, columns), bytes_, writeable=False
        )

    queries, keys, width = problem.queries, problem.keys, problem.width
    query, key, value, mask, result = problem.layouts
    scores = (
        problem.scale * view("query", query, queries, width) @ view("key", key, keys, width).swapaxes(2, 3)
    )
    if "mask" in arrays:
        scores = scores + view("mask", mask, queries, keys)
    sums = _softmax(scores) @ view("value", value, keys, width)
    at = (
        result.start
        + result.batch * np.arange(problem.batch)[:, None, None, None]
        + result.head * np.arange(problem.heads)[:, None, None]
        + result.row * np.arange(queries)[:, None]
        + np.arange(width)
    )
    output = np.zeros(result.size)
    output[at] = sums
    return output


def _softmax(scores: Array) -> Array:
    """Softmax of rows; those without a finite score are zero."""
    peak = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(peak), peak, 0.0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0.0, 1.0, total)


def _inputs(func: tirx.PrimFunc, problem: Problem, parameters: Sequence[int]) -> list[Array]:
    """Random numbers for all parameters but the output."""
    random = np.random.default_rng(0)
    names = dict(zip(parameters, problem.pointers, strict=True))
    found = []
    for number, param in enumerate(func.params[:-1]):
        drawn = random.uniform(-1.0, 1.0, extents(param))
        if names.get(number) == "mask":
            # A row that is masked out shows nothing of the others: its first key stays.
            hidden = random.random(drawn.shape) < MASKED
            hidden[..., 0] = False
            drawn[hidden] = -np.inf
        elif names.get(number) in ("query", "key"):
            drawn *= 2.0
        found.append(drawn.astype(numpy_type(str(param.dtype))))
    return found
