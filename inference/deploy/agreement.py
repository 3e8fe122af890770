"""Agreement of a network in a narrower data type with itself in float32, beside PyTorch's in that type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...dataset.networks import Network
from ..result import Agreement
from .outputs import compare_outputs

INPUTS = 8
"""Random inputs on which the largest outputs are compared."""


def measure_agreement(
    network: Network, dtype: str, run: Callable[..., Sequence[NDArray[Any]]], inputs: int = INPUTS
) -> Agreement:
    """Agreement of `run`, the compiled network in `dtype`, on the example inputs and on random ones."""
    narrow: torch.dtype = getattr(torch, dtype)
    theirs = network.outputs_in(narrow)
    difference = None
    if theirs is not None:
        difference = compare_outputs(network.reference_outputs(), theirs).max_abs_difference
    shares, pytorch_shares = [], []
    for seed in range(1, inputs + 1):
        other = network.with_other_inputs(seed)
        reference = other.reference_outputs()
        shares.append(top_1(reference, run(*other.inputs)))
        if theirs is not None:
            pytorch_shares.append(top_1(reference, other.outputs_in(narrow) or []))
    return Agreement(
        dtype,
        inputs,
        difference,
        float(np.mean(shares)),
        float(np.mean(pytorch_shares)) if pytorch_shares else None,
    )


def top_1(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> float:
    """Share of rows of the first output whose largest element is at the same place.

    A row runs over the last axis, or over the channels of an image, [batch, channels, ...].
    """
    expected, got = reference[0], actual[0]
    if expected.ndim == 0 or expected.size == 0:
        return 1.0
    axis = 1 if expected.ndim >= 4 else -1
    return float(np.mean(expected.argmax(axis) == got.argmax(axis)))
