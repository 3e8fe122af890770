"""Decision tokens: the knobs of a candidate (One-Shot Tuner section 4.1.3, Table 1).

MetaSchedule's sampled decisions take the role of AutoTVM's knobs: one token for each sampling instruction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir.schedule import Trace

_MAX_FACTORS = 5  # CUDA's spatial tiles have five factors, the most of any MetaSchedule rule
_KINDS = {
    "SamplePerfectTile": 0,
    "SamplePartitionedTile": 0,  # tiles of tensor cores by MMA, whose inner factors make up whole fragments
    "SampleCategorical": 1,
    "SampleComputeLocation": 2,
}

DECISION_DIM = len(set(_KINDS.values())) + 2 + 2 * _MAX_FACTORS + 2
"""Length of a decision token: one-hot kind; number of factors; log2 extent of the loop; log2 of each factor;
log2 of the extent inside each factor; value and index of a categorical or compute-location decision."""


def decision_features(trace: Trace) -> NDArray[np.float32]:
    """Decision tokens, float32 [n_decisions, DECISION_DIM], in trace order; unknown kinds are left out."""
    tokens = []
    decisions = trace.decisions  # the map of a simplified trace has the order of its hash table
    for instruction in trace.insts:
        kind = _KINDS.get(instruction.kind.name)
        if kind is None or instruction not in decisions:
            continue
        decision = decisions[instruction]
        token = np.zeros(DECISION_DIM, dtype=np.float32)
        token[kind] = 1.0
        if kind == 0:
            factors = np.log2([max(int(factor), 1) for factor in decision][:_MAX_FACTORS])
            token[3:5] = len(factors), factors.sum()
            # The innermost factor is always the last entry, regardless of the number of tiling levels.
            token[5 + _MAX_FACTORS - len(factors) : 5 + _MAX_FACTORS] = factors
            inside = np.cumsum(factors[::-1])[::-1]
            token[5 + 2 * _MAX_FACTORS - len(factors) : 5 + 2 * _MAX_FACTORS] = inside
        else:
            chosen = int(decision)
            value = float(instruction.attrs[0][chosen]) if kind == 1 else float(chosen)
            token[-2:] = (np.log2(1.0 + value) if kind == 1 else value), chosen
        tokens.append(token)
    return np.stack(tokens) if tokens else np.zeros((0, DECISION_DIM), dtype=np.float32)
