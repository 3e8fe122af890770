"""The columns of a cost model's output: what it predicts of a program, beside how fast it is.

Fasor's model predicts latency, memory-bound score and core-bound score together (section 4.1). The first
column is always the primary one, which ranks programs; the last may be how sure the model is of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SCORE = "score"
"""The primary output, on the scale of the training target."""
SHARES = ("memory", "core")
"""Roofline scores (`dataset.roofline`), on the scale of `encode_share`."""
OUTPUTS = (SCORE, *SHARES)
LOG_VARIANCE = "log_variance"
"""ln of the variance of the primary output around its target."""
LOG_VARIANCE_RANGE = (-14.0, 4.0)
"""Standard deviations from 0.001 to 7, so that no row of a batch weighs without bounds."""

SHARE_FLOOR = 1e-3
"""Shares below it are not told apart: neither ceiling matters to such a program."""


def column_names(outputs: Sequence[str], variance: bool) -> tuple[str, ...]:
    """Names of the columns; raises ValueError unless `outputs` are some of OUTPUTS, SCORE first."""
    known = len(set(outputs)) == len(outputs) and set(outputs) <= set(OUTPUTS)
    if not outputs or not known or outputs[0] != SCORE:
        raise ValueError(
            f"outputs={list(outputs)}: start with {SCORE!r}, and add {' or '.join(map(repr, SHARES))} or both"
        )
    return (*outputs, LOG_VARIANCE) if variance else tuple(outputs)


def encode_share(share: NDArray[np.float64]) -> NDArray[np.float32]:
    """Shares of the latency in [0, 1] -> training targets in [0, 1], even over magnitudes."""
    return (1 - np.log(np.maximum(share, SHARE_FLOOR)) / np.log(SHARE_FLOOR)).astype(np.float32)


def decode_share(column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inverse of `encode_share`, at most 1."""
    share: NDArray[np.float32] = np.power(np.float32(SHARE_FLOOR), 1 - np.minimum(column, np.float32(1)))
    return share
