"""Prior over operator settings: One-Shot Tuner's prior-guided task sampling, section 4.1.1 and Algorithm 1.

The paper draws the knobs sequentially. It draws each knob by its frequency among the collected tasks that
agree on all earlier knobs. The counts of such a full chain multiply out to the count of the whole task, so
the chain only draws rows of the table. Here each conditional frequency is interpolated with frequencies under
shorter conditions, so that draws are plausible and some occur in no crawled network. N(c) is the number of
tasks that have condition c, N(x, c) the number of tasks that also have value x, R(c) the number of rows of
the table in N(c), D(c) the number of different values in them, and c' the next shorter condition:

    P(x | c) = w(c) * N(x, c) / N(c) + (1 - w(c)) * P(x | c'),    w(c) = R(c) / (R(c) + smoothing * D(c))

With `smoothing` 1 the weight is Witten and Bell's estimate that the next value was seen before (IEEE
Transactions on Information Theory 37(4), 1991). It counts rows, because networks of one family repeat each
other and do not provide independent evidence. With `smoothing` 0 the formula is the paper's chain. The last
condition is empty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from ....compiler.operators import (
    NOT_CRAWLED,
    OperatorSettings,
    SettingsError,
    settings_class,
    settings_from_dict,
)
from ....compiler.operators.shared.knobs import Knob
from ..zoo.table import ZooRow

Values: TypeAlias = tuple[Any, ...]

MAX_REDRAWS = 1000
"""Draws in a row of impossible settings, such as a kernel larger than its input, before giving up."""


def knobs_of(operator: str) -> tuple[Knob, ...]:
    """Knobs of an operator in the order of its draws; raises SettingsError for an unknown operator."""
    cls = settings_class(operator)
    if cls.knobs:
        return cls.knobs
    fixed = (*NOT_CRAWLED, *(["epilogue"] if cls.epilogues == ("none",) else []))
    return tuple(Knob((field.name,)) for field in fields(cls) if field.name not in fixed)


@dataclass(frozen=True)
class _Frequencies:
    """Counts of the values under one condition."""

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


_Conditions: TypeAlias = dict[tuple[str, ...], dict[Values, _Frequencies]]
"""Counts for one knob, by the fields of each condition, longest first, and by their values."""

_Chain: TypeAlias = list[_Conditions]
"""Counts for one operator, by position of the knob."""


class Prior:
    """Conditional frequencies of operator settings among the tasks of crawled networks.

    Each row of the table counts once per network, because a tuner merges equal calls into one task.
    """

    def __init__(self, rows: Sequence[ZooRow], smoothing: float = 1.0) -> None:
        if smoothing < 0:
            raise ValueError(f"smoothing={smoothing}: must be at least 0, which draws from the table alone")
        self._smoothing = smoothing
        self._rows: defaultdict[str, list[ZooRow]] = defaultdict(list)
        for row in rows:
            if row.networks:
                self._rows[row.settings.operator].append(row)
        self._chains: dict[str, _Chain] = {}

    @property
    def operators(self) -> tuple[str, ...]:
        """Operator types of the table."""
        return tuple(self._rows)

    def sample(self, operator: str, rng: np.random.Generator) -> OperatorSettings:
        """Draws possible settings of one operator with an epilogue, float32 and channels first.

        Raises SettingsError.
        """
        chain, knobs = self._chain(operator), knobs_of(operator)
        for _ in range(MAX_REDRAWS):
            drawn: dict[str, Any] = {}
            for position, knob in enumerate(knobs):
                drawn.update(zip(knob.fields, self._draw(chain[position], drawn, rng), strict=True))
            try:
                return settings_from_dict(operator, drawn)
            except SettingsError:
                continue
        raise SettingsError(f"operator={operator}: the prior drew {MAX_REDRAWS} impossible settings in a row")

    def probability(self, settings: OperatorSettings) -> float:
        """Probability of a draw of these settings, before impossible ones are drawn again."""
        operator, result = settings.operator, 1.0
        for knob, conditions in zip(knobs_of(operator), self._chain(operator), strict=True):
            value, rest, knob_probability = _read(settings, knob.fields), 1.0, 0.0
            for condition, by_value in conditions.items():
                frequencies = by_value.get(_read(settings, condition))
                if frequencies is not None:
                    weight = self._weight(frequencies, condition)
                    knob_probability += rest * weight * frequencies.share(value)
                    rest *= 1.0 - weight
            result *= knob_probability
        return result

    def _draw(self, conditions: _Conditions, drawn: Mapping[str, Any], rng: np.random.Generator) -> Values:
        for condition, by_value in conditions.items():
            frequencies = by_value.get(tuple(drawn[name] for name in condition))
            if frequencies is not None and rng.random() < self._weight(frequencies, condition):
                return frequencies.draw(rng)
        raise AssertionError("the empty condition has weight 1")

    def _weight(self, frequencies: _Frequencies, condition: tuple[str, ...]) -> float:
        if not condition:
            return 1.0
        return frequencies.rows / (frequencies.rows + self._smoothing * len(frequencies.values))

    def _chain(self, operator: str) -> _Chain:
        if operator not in self._rows:
            settings_class(operator)
            raise SettingsError(
                f"operator={operator}: the table has none; it has {', '.join(self.operators)}"
            )
        if operator not in self._chains:
            self._chains[operator] = _count(knobs_of(operator), self._rows[operator])
        return self._chains[operator]


def _count(knobs: Sequence[Knob], rows: Sequence[ZooRow]) -> _Chain:
    columns = {name: [getattr(row.settings, name) for row in rows] for knob in knobs for name in knob.fields}

    def read_all(names: Sequence[str]) -> list[Values]:
        return list(zip(*(columns[name] for name in names), strict=True)) if names else [()] * len(rows)

    counted: _Chain = []
    before: tuple[str, ...] = ()
    for knob in knobs:
        values = read_all(knob.fields)
        conditions: _Conditions = {}
        for condition in dict.fromkeys([before, *knob.backoff, ()]):
            counters: defaultdict[Values, Counter[Values]] = defaultdict(Counter)
            given_values = read_all(condition)
            for row, given, value in zip(rows, given_values, values, strict=True):
                counters[given][value] += row.networks
            witnesses = Counter(given_values)
            conditions[condition] = {
                given: _Frequencies(tuple(counter), tuple(accumulate(counter.values())), witnesses[given])
                for given, counter in counters.items()
            }
        counted.append(conditions)
        before += knob.fields
    return counted


def _read(settings: OperatorSettings, names: Sequence[str]) -> Values:
    return tuple(getattr(settings, name) for name in names)


"""Consecutive draws of impossible settings, such as groups that divide no channels, before giving up."""


def sample_uniform(operator: str, rng: np.random.Generator) -> OperatorSettings:
    """Every setting uniform over its range, of batch 1; a window's input has equal sides and fits it.

    Raises SettingsError if no draw is possible.
    """
    cls = settings_class(operator)
    names = {field.name for field in fields(cls)}
    problem = ""
    for _ in range(MAX_REDRAWS):
        values = cls.draw_uniform(rng)
        try:
            return cls.from_dict({name: value for name, value in values.items() if name in names})
        except SettingsError as error:
            problem = str(error)
    raise SettingsError(
        f"operator={operator}: {MAX_REDRAWS} uniform draws in a row were impossible, the last by {problem}"
    )
