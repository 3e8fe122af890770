"""Prior over operator settings: One-Shot Tuner's prior-guided task sampling, section 4.1.1 and Algorithm 1.

The paper draws one knob after the other, each from its frequency among the collected tasks that agree on all
knobs drawn before. As the counts of a full chain multiply out to the count of the whole task, that draws rows
of the table and nothing else. Here each conditional frequency is interpolated with those of shorter
conditions, so that a draw is plausible but may be of no crawled network. With N(c) the tasks that have
condition c, N(x, c) those that also have value x, R(c) the rows of the table behind N(c), D(c) the number of
different values in them, and c' the next shorter condition:

    P(x | c) = w(c) * N(x, c) / N(c) + (1 - w(c)) * P(x | c'),    w(c) = R(c) / (R(c) + smoothing * D(c))

The weight is Witten and Bell's estimate that a value follows which was seen before (IEEE Transactions on
Information Theory 37(4), 1991), where `smoothing` is 1. It counts rows, as networks of one family repeat each
other and do not witness independently. With `smoothing` 0 this is the paper's chain. The last condition is
empty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, TypeAlias

import numpy as np

from .operators import OperatorSettings, SettingsError, settings_class, settings_from_dict
from .zoo_table import ZooRow

Values: TypeAlias = tuple[Any, ...]

MAX_REDRAWS = 1000
"""Draws in a row of impossible settings, such as a kernel larger than its input, before giving up."""


@dataclass(frozen=True)
class Knob:
    """Fields drawn together, and the conditions to fall back to, each shorter than the one before.

    The first condition, all knobs drawn before, and the last, none, are understood.
    """

    fields: tuple[str, ...]
    backoff: tuple[tuple[str, ...], ...] = ()


_WINDOW = (
    Knob(("kernel",)),
    Knob(("stride",)),
    Knob(("padding",), (("kernel",),)),
    Knob(("dilation",), (("kernel", "padding"),)),
    Knob(("in_channels",), (("kernel", "stride"), ("kernel",))),
)
CHAINS: Mapping[str, tuple[Knob, ...]] = {
    "conv2d": (
        *_WINDOW,
        Knob(("out_channels",), (("kernel", "in_channels"), ("in_channels",))),
        Knob(("height", "width"), (("stride", "in_channels"), ("in_channels",))),
        Knob(("batch",)),
    ),
    "depthwise_conv2d": (
        *_WINDOW,
        Knob(("height", "width"), (("stride", "in_channels"), ("in_channels",))),
        Knob(("batch",)),
    ),
    "dense": (
        Knob(("rows",)),
        Knob(("in_features",)),
        Knob(("out_features",), (("in_features",),)),
    ),
    "batch_matmul": (
        Knob(("rows",)),
        Knob(("inner",)),
        Knob(("columns",), (("rows",), ("inner",))),
        Knob(("batch",), (("rows", "inner"), ("rows",))),
    ),
}
"""Order of the knobs: the window first, as in the paper, then channels, then the size of the input.

The fall-back conditions are what ties a knob to the rest in common networks: padding follows the kernel,
out channels the in channels, and the size of an input shrinks as its channels grow.
"""


@dataclass(frozen=True)
class _Frequencies:
    """How often each value occurs under one condition."""

    values: Sequence[Values]
    cumulative: Sequence[int]
    rows: int

    @property
    def total(self) -> int:
        return self.cumulative[-1]

    def draw(self, rng: np.random.Generator) -> Values:
        return self.values[bisect_right(self.cumulative, rng.random() * self.total)]

    def share(self, value: Values) -> float:
        try:
            i = self.values.index(value)
        except ValueError:
            return 0.0
        return (self.cumulative[i] - (self.cumulative[i - 1] if i else 0)) / self.total


class Prior:
    """Conditional frequencies of operator settings among the tasks of crawled networks.

    Each row of the table counts once a network: a tuner makes one task of equal calls.
    """

    def __init__(self, rows: Sequence[ZooRow], smoothing: float = 1.0) -> None:
        if smoothing < 0:
            raise ValueError(f"smoothing={smoothing}: must be at least 0, which draws from the table alone")
        self._smoothing = smoothing
        witnesses: Counter[tuple[str, int, tuple[str, ...], Values]] = Counter()
        counts: defaultdict[tuple[str, int, tuple[str, ...], Values], Counter[Values]] = defaultdict(Counter)
        for row in rows:
            operator = row.settings.operator
            for position, knob in enumerate(CHAINS[operator]) if row.networks else ():
                for condition in _conditions(operator, position):
                    key = (operator, position, condition, _read(row.settings, condition))
                    witnesses[key] += 1
                    counts[key][_read(row.settings, knob.fields)] += row.networks
        self._frequencies = {
            key: _Frequencies(tuple(counter), tuple(accumulate(counter.values())), witnesses[key])
            for key, counter in counts.items()
        }
        self.operators = tuple(dict.fromkeys(key[0] for key in counts))

    def sample(self, operator: str, rng: np.random.Generator) -> OperatorSettings:
        """Draws possible settings of one operator, float32 and without an epilogue."""
        self._check(operator)
        for _ in range(MAX_REDRAWS):
            drawn: dict[str, Any] = {}
            for position, knob in enumerate(CHAINS[operator]):
                drawn.update(zip(knob.fields, self._draw(operator, position, drawn, rng), strict=True))
            try:
                return settings_from_dict(operator, drawn)
            except SettingsError:
                continue
        raise SettingsError(f"operator={operator}: the prior drew {MAX_REDRAWS} impossible settings in a row")

    def probability(self, settings: OperatorSettings) -> float:
        """Probability of a draw, before impossible settings are drawn again."""
        operator = settings.operator
        self._check(operator)
        result = 1.0
        for position, knob in enumerate(CHAINS[operator]):
            value, rest, knob_probability = _read(settings, knob.fields), 1.0, 0.0
            for condition in _conditions(operator, position):
                frequencies = self._frequencies.get(
                    (operator, position, condition, _read(settings, condition))
                )
                if frequencies is not None:
                    weight = self._weight(frequencies, condition)
                    knob_probability += rest * weight * frequencies.share(value)
                    rest *= 1.0 - weight
            result *= knob_probability
        return result

    def _draw(
        self, operator: str, position: int, drawn: Mapping[str, Any], rng: np.random.Generator
    ) -> Values:
        for condition in _conditions(operator, position):
            given = tuple(drawn[name] for name in condition)
            frequencies = self._frequencies.get((operator, position, condition, given))
            if frequencies is not None and rng.random() < self._weight(frequencies, condition):
                return frequencies.draw(rng)
        raise AssertionError("the empty condition has weight 1")

    def _weight(self, frequencies: _Frequencies, condition: tuple[str, ...]) -> float:
        if not condition:
            return 1.0
        return frequencies.rows / (frequencies.rows + self._smoothing * len(frequencies.values))

    def _check(self, operator: str) -> None:
        if operator not in self.operators:
            settings_class(operator)
            raise SettingsError(
                f"operator={operator}: the table has none; it has {', '.join(self.operators)}"
            )


def _conditions(operator: str, position: int) -> list[tuple[str, ...]]:
    """Fields of each condition of a knob, from all drawn before to none."""
    knobs = CHAINS[operator]
    before = tuple(chain.from_iterable(knob.fields for knob in knobs[:position]))
    return list(dict.fromkeys([before, *knobs[position].backoff, ()]))


def _read(settings: OperatorSettings, names: Sequence[str]) -> Values:
    return tuple(getattr(settings, name) for name in names)
