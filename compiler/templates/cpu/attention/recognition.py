"""Whether a function computes an attention, by the values of a few rows of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from ....operators.shared.tir import extents
from .attention import BlockedAttention, Layout
from .sampled_values import SampledValues, UnknownStepError

_ROWS, _COLUMNS = 4, 3
"""Rows of the output, and elements of each, that are compared."""

_SCALE = 2.0
"""Largest value of queries and keys, so that some weights of a row are much larger than others."""

Values = NDArray[np.float64]


def recognised(
    mod: tvm.IRModule, problem: BlockedAttention, parameters: Sequence[int]
) -> BlockedAttention | None:
    """The attention with its `zeros`, as found by comparison with `main`; None if values differ.

    `parameters` are the parameters of query, key, value, the mask if there is one, and output. Random masks
    hide a third of the keys, and all keys of one of the compared rows.
    """
    random = np.random.default_rng(0)
    pairs = random.integers(0, problem.pairs, _ROWS)
    rows = np.append(random.integers(0, problem.queries, _ROWS - 1), problem.queries - 1)
    columns = random.integers(0, problem.width, _COLUMNS)
    inputs = {
        index: random.uniform(-_SCALE, _SCALE, extents(param))
        for index, param in enumerate(mod["main"].params[:-1])
    }
    if problem.mask is not None:
        mask = inputs[parameters[3]].ravel()
        mask[random.random(mask.size) < 1 / 3] = -np.inf
        mask[_at(problem, problem.mask, pairs, rows, 0)] = 0.0  # each row has a key
    for pair, row in zip(pairs, rows, strict=True):
        places = _at(problem, problem.output, pair, row, columns)
        expected = _row(problem, inputs, parameters, pair, row)[columns]
        own = _sampled(mod, inputs, places)
        if own is None or not np.allclose(own, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()):
            return None
    if problem.mask is None:
        return problem
    mask[_at(problem, problem.mask, pairs[0], rows[0], np.arange(problem.keys))] = -np.inf
    own = _sampled(mod, inputs, _at(problem, problem.output, pairs[0], rows[0], columns))
    if own is None or not (np.isnan(own).all() or (own == 0).all()):
        return None
    return replace(problem, zeros=bool((own == 0).all()))


def _sampled(mod: tvm.IRModule, inputs: dict[int, Values], places: Any) -> Values | None:
    try:
        return SampledValues(mod, inputs).output(places)
    except UnknownStepError:
        return None


def _at(problem: BlockedAttention, layout: Layout, pair: Any, row: Any, column: Any) -> Any:
    """Place of an element in the flat array."""
    batch, head = np.divmod(pair, problem.heads)
    return layout.start + batch * layout.batch + head * layout.head + row * layout.row + column


def _row(
    problem: BlockedAttention, inputs: dict[int, Values], parameters: Sequence[int], pair: int, row: int
) -> Values:
    """One row of the output."""
    keys, width = np.arange(problem.keys)[:, None], np.arange(problem.width)
    query, key, value = (inputs[index].ravel() for index in parameters[:3])
    scores = problem.scale * (
        key[_at(problem, problem.key, pair, keys, width)]
        @ query[_at(problem, problem.query, pair, row, width)]
    )
    if problem.mask is not None:
        scores = scores + inputs[parameters[3]].ravel()[_at(problem, problem.mask, pair, row, keys[:, 0])]
    with np.errstate(all="ignore"):
        weights = np.exp(scores - scores.max())
        return np.asarray((weights / weights.sum()) @ value[_at(problem, problem.value, pair, keys, width)])
