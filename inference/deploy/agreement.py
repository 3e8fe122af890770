"""Agreement of a network in a narrower data type with its float32 form, compared with a rival's agreement.

The rival is PyTorch with the module in bfloat16, or ONNX Runtime with the same quantised file in int8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...compiler.networks import Network
from ...compiler.networks.importing.onnx_import import runtime_outputs
from ...compiler.types import INT8
from ..run.result import Agreement
from .outputs import narrow_differences

INPUTS = 8
"""Number of random inputs on which the positions of the largest outputs are compared."""


def measure_agreement(
    network: Network, dtype: str, run: Callable[..., Sequence[NDArray[Any]]], inputs: int = INPUTS
) -> Agreement:
    """Measures how the compiled network `run` in `dtype` agrees, on the example inputs and on random ones."""
    differences = rival_differences(network, dtype)
    shares, rival_shares = [], []
    for seed in range(1, inputs + 1):
        other = network.with_other_inputs(seed)
        reference = other.reference_outputs()
        shares.append(top_1(reference, run(*other.inputs)))
        if differences is not None:
            rival_shares.append(top_1(reference, _rival_outputs(other, dtype) or []))
    return Agreement(
        dtype,
        inputs,
        None if differences is None else max(differences, default=0.0),
        float(np.mean(shares)),
        float(np.mean(rival_shares)) if rival_shares else None,
        "ONNX Runtime" if dtype == INT8 else "PyTorch",
    )


def rival_differences(network: Network, dtype: str) -> list[float] | None:
    """The rival's difference for each output on the example inputs, for `compare_narrow_outputs`.

    None if it does not support the type.
    """
    theirs = _rival_outputs(network, dtype)
    return None if theirs is None else narrow_differences(network.reference_outputs(), theirs)


def _rival_outputs(network: Network, dtype: str) -> list[NDArray[Any]] | None:
    """Outputs of the rival for the example inputs, or None if it does not support the data type."""
    if dtype != INT8:
        return network.outputs_in(getattr(torch, dtype))
    assert network.quantised_path is not None
    return runtime_outputs(network.quantised_path, network.inputs)


def top_1(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> float:
    """Share of rows of the first output whose largest element is at the same position.

    A row runs over the last axis. In an image, [batch, channels, ...], it runs over the channels.
    """
    expected, got = reference[0], actual[0]
    if expected.ndim == 0 or expected.size == 0:
        return 1.0
    axis = 1 if expected.ndim >= 4 else -1
    return float(np.mean(expected.argmax(axis) == got.argmax(axis)))
