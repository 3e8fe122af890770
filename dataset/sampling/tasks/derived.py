"""Rows that the prior counts: the zoo's table, and rows for operators that zoos call seldom or never."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ....compiler.operators import OPERATOR_SETTINGS, OperatorSettings
from ..zoo.table import MAX_EXAMPLES, ZooRow, read_zoo_table


def prior_rows(table: Path) -> list[ZooRow]:
    """Rows of the table, derived rows, and typical settings of operators that have neither.

    Typical settings count once each, as of one network. Raises ZooTableError.
    """
    rows = with_derived(read_zoo_table(table))
    known = {row.settings.operator for row in rows}
    missing = (cls for name, cls in OPERATOR_SETTINGS.items() if name not in known)
    return [*rows, *(ZooRow(s, 1, 1, (), ()) for cls in missing for s in cls.typical())]


def with_derived(rows: Iterable[ZooRow]) -> list[ZooRow]:
    """The rows, and the rows that operators derive from them, with the same counts."""
    given = list(rows)
    derivers: defaultdict[str, list[type[OperatorSettings]]] = defaultdict(list)
    for cls in OPERATOR_SETTINGS.values():
        derivers[cls.made_of].append(cls)
    derived: dict[OperatorSettings, ZooRow] = {}
    for row in given:
        for cls in derivers[row.settings.operator]:
            settings = cls.derive(row.settings)
            if settings is not None:
                other = derived.get(settings)
                new = replace(row, settings=settings)
                derived[settings] = new if other is None else _merge(other, new)
    return [*given, *derived.values()]


def _merge(one: ZooRow, other: ZooRow) -> ZooRow:
    return ZooRow(
        one.settings,
        one.calls + other.calls,
        one.networks + other.networks,
        tuple(dict.fromkeys(one.examples + other.examples))[:MAX_EXAMPLES],
        tuple(dict.fromkeys(one.evaluation + other.evaluation)),
    )
