"""Types of the arguments of networks: numbers within the range that configurations and cards may give."""

from __future__ import annotations

from typing import Annotated

from ...json_fields import Span

Width = Annotated[int, Span(1, 2**14)]
"""Number of units of a layer."""

Depth = Annotated[int, Span(1, 2**7)]
"""Number of layers, heads or splits in a row."""

Number = Annotated[int, Span(1, 2**20)]
"""Number of repetitions of a training, or of positions."""

MOST_MEMBERS = 64
Members = Annotated[int, Span(1, MOST_MEMBERS)]
"""Number of models of one kind in an ensemble."""

Share = Annotated[float, Span(0, 1)]
