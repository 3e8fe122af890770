"""Check that sums of 8-bit products fit 32 bits."""

from __future__ import annotations

from ....errors import UserError
from ...types import INT8, data_type
from .contraction import Contraction

_LARGEST = {name: max(map(abs, data_type(name).range)) for name in data_type(INT8).factors}
"""Largest magnitude by data type."""


class AccumulatorOverflowError(UserError, ValueError):
    """Sums of a contraction may exceed the range of its accumulator."""


def most_products(data: str, weight: str) -> int:
    """Products of these 8-bit types that a sum of 32 bits holds, whatever their values."""
    return (2**31 - 1) // (_LARGEST[data] * _LARGEST[weight])


def check_accumulator(task: Contraction) -> None:
    """Raises AccumulatorOverflowError where 8-bit operands may overflow the 32-bit sums.

    The instructions have no intermediate of 16 bits, so that only the sum itself can overflow. Partial sums
    wrap around and back again.
    """
    data, weight, accumulator = task.types
    if accumulator != data_type(INT8).sums or data not in _LARGEST or weight not in _LARGEST:
        return
    most = most_products(data, weight)
    if task.depth > most:
        raise AccumulatorOverflowError(
            f"{task.block}: {task.depth} products of {data} and {weight} may overflow {accumulator}, which "
            f"holds {most} of the largest; split the reduction, or use float32"
        )
