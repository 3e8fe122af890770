"""Columns of a cost model's output: the score, and optionally roofline scores and a variance.

Fasor's model predicts latency, memory-bound score and core-bound score together (section 4.1). The first
column is the primary output, which ranks programs. The last may be the log variance of the primary output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SCORE = "score"
"""The primary output, on the scale of the training target."""
SHARES = ("memory", "core")
"""Roofline scores (`dataset.features.roofline`) on the scale of `encode_share`."""
OUTPUTS = (SCORE, *SHARES)
LOG_VARIANCE = "log_variance"
"""Natural logarithm of the variance of the primary output around its target."""
LOG_VARIANCE_RANGE = (-14.0, 4.0)
"""Bounds of the log variance, for standard deviations from 0.001 to 7; they bound the weight of a row."""

SHARE_FLOOR = 1e-3
"""Least share that is resolved; below it the ceiling does not matter to the program."""


def column_names(outputs: Sequence[str], variance: bool) -> tuple[str, ...]:
    """Names of the columns; raises ValueError unless `outputs` are distinct names of OUTPUTS, SCORE first."""
    known = len(set(outputs)) == len(outputs) and set(outputs) <= set(OUTPUTS)
    if not outputs or not known or outputs[0] != SCORE:
        raise ValueError(
            f"outputs={list(outputs)}: start with {SCORE!r}, and add {' or '.join(map(repr, SHARES))} or both"
        )
    return (*outputs, LOG_VARIANCE) if variance else tuple(outputs)


def encode_share(share: NDArray[np.float64]) -> NDArray[np.float32]:
    """Training targets in [0, 1] for shares of the latency in [0, 1], on a logarithmic scale."""
    return (1 - np.log(np.maximum(share, SHARE_FLOOR)) / np.log(SHARE_FLOOR)).astype(np.float32)


def decode_share(column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inverse of `encode_share`, at most 1."""
    share: NDArray[np.float32] = np.power(np.float32(SHARE_FLOOR), 1 - np.minimum(column, np.float32(1)))
    return share
