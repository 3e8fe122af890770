"""Comparison of outputs with those of the original network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from numpy.typing import NDArray

from ...compiler.networks import Network
from ...compiler.types import WIDE
from .agreement import rival_differences
from .comparison import Compare
from .outputs import OutputCheck, compare_narrow_outputs, compare_outputs


def comparison_with_original(network: Network, dtype: str = WIDE) -> Compare:
    """Compares outputs with the network's own, or in a narrower type with a rival's in that type.

    In float32, the first disagreement triggers `rounding_errors`.
    """
    reference = network.reference_outputs()
    if dtype != WIDE:
        return partial(
            compare_narrow_outputs,
            reference,
            rival_differences=rival_differences(network, dtype),
            dtype=dtype,
        )
    rounding_errors = cache(partial(network.rounding_errors, reference))

    def compare(outputs: Sequence[NDArray[Any]]) -> OutputCheck:
        check = compare_outputs(reference, outputs)
        return check if check.agrees else compare_outputs(reference, outputs, rounding_errors())

    return compare
