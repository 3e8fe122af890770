"""Rows that the prior counts: the zoo's table, and rows for operators that zoos call seldom or never."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from ....compiler.operators import OPERATOR_SETTINGS, OperatorSettings
from ...records.task_shapes import shape_of
from ..zoo.table import MAX_EXAMPLES, ZooRow, read_zoo_table
from .prior import Prior


@dataclass(frozen=True)
class PriorTable:
    """Rows that the prior counts."""

    rows: tuple[ZooRow, ...]

    @cached_property
    def prior(self) -> Prior:
        return Prior(self.rows)

    @cached_property
    def evaluation_shapes(self) -> frozenset[OperatorSettings]:
        """Shapes that evaluation networks have."""
        return frozenset(shape_of(row.settings) for row in self.rows if row.evaluation)


def prior_table(path: Path) -> PriorTable:
    """Rows of the table, derived rows, and typical settings of operators that have neither.

    Typical settings count once each, as of one network. A process reads the table, which takes seconds, once
    until the file or the operators change. Raises ZooTableError.
    """
    written = path.stat() if path.is_file() else None
    stamp = written and (written.st_dev, written.st_ino, written.st_mtime_ns, written.st_size)
    return _read(path, stamp, tuple(OPERATOR_SETTINGS.values()))


@lru_cache(maxsize=2)
def _read(path: Path, _stamp: object, operators: tuple[type[OperatorSettings], ...]) -> PriorTable:
    rows = with_derived(read_zoo_table(path))
    known = {row.settings.operator for row in rows}
    missing = (cls for cls in operators if cls.operator not in known)
    return PriorTable((*rows, *(ZooRow(s, 1, 1, (), ()) for cls in missing for s in cls.typical())))


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
