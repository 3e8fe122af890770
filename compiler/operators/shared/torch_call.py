"""One call of PyTorch's operator library, from which an operator reads its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class NotDescribedError(Exception):
    """A call that the operator's settings cannot express. The message is a short reason."""


@dataclass(frozen=True)
class TorchCall:
    """Call of an ATen function on tensors of known shape."""

    function: str
    """Name without its overload, such as `aten.convolution`."""
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    """Keyword arguments."""
    output: torch.Tensor | None
    """The first tensor that the call returns."""

    def argument(self, position: int, default: Any = None) -> Any:
        """Positional argument, or the default if the call leaves it out."""
        return self.args[position] if position < len(self.args) else default


def split_at_axes(shape: Sequence[int], axes: Sequence[int] | int | None) -> tuple[int, int, int]:
    """Numbers of elements before, along and after the reduced axes; None reduces all axes.

    Raises NotDescribedError for axes that are not adjacent.
    """
    given = (axes,) if isinstance(axes, int) else tuple(axes or range(len(shape)))
    reduced = sorted(axis % len(shape) for axis in given)
    first, last = reduced[0], reduced[-1]
    if len(reduced) != last - first + 1:
        raise NotDescribedError("reduction over axes that are apart")
    return prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])
