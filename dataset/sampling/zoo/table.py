"""Table of operator settings in model zoos, as a CSV file: the data from which the prior is computed."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from ....compiler.operators import NOT_CRAWLED, OPERATOR_SETTINGS, OperatorSettings, settings_from_dict
from ....errors import UserError
from ...records.task_shapes import shape_of

ZOO_TABLE = Path(__file__).with_name("prior_table.csv")
"""The table that comes with the package; `python -m foretune.dataset.sampling.zoo.crawl` writes it."""

COUNT_COLUMNS = ("calls", "networks", "examples", "evaluation")

MAX_EXAMPLES = 2


class ZooTableError(UserError, ValueError):
    """A file is not a table of operator settings."""


@dataclass(frozen=True)
class ZooRow:
    """One distinct operator of the zoos with its epilogue, float32 and channels first."""

    settings: OperatorSettings
    calls: int
    """Number of its calls in one inference of every network."""
    networks: int
    """Number of networks that call it. A tuner merges equal calls into one task, so this counts tasks."""
    examples: tuple[str, ...]
    """Up to MAX_EXAMPLES networks that call it."""
    evaluation: tuple[str, ...]
    """Evaluation networks that call it; they do not count in `calls` and `networks`."""


def setting_columns() -> tuple[str, ...]:
    """Fields of all registered operators that a zoo provides, the epilogue last."""
    names = dict.fromkeys(f.name for cls in OPERATOR_SETTINGS.values() for f in fields(cls))
    return (*(name for name in names if name not in (*NOT_CRAWLED, "epilogue")), "epilogue")


def write_zoo_table(rows: Iterable[ZooRow], path: Path) -> None:
    """Writes the rows as CSV, with a pair of numbers as `3x3`; settings with their default stay empty."""
    columns = ("operator", *setting_columns(), *COUNT_COLUMNS)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    "operator": row.settings.operator,
                    **_values(row.settings),
                    "calls": row.calls,
                    "networks": row.networks,
                    "examples": " ".join(row.examples),
                    "evaluation": " ".join(row.evaluation),
                }
            )


def _values(settings: OperatorSettings) -> dict[str, str]:
    """Columns of settings that differ from their default."""
    values = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name not in NOT_CRAWLED and (field.default is MISSING or value != field.default):
            values[field.name] = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return values


def read_zoo_table(path: Path = ZOO_TABLE) -> list[ZooRow]:
    """Reads a file from `write_zoo_table`; raises ZooTableError with the faulty line.

    The columns may be in any order. Columns of operators that are newer than the table may be missing.
    """
    remedy = "write it again with `python -m foretune.dataset.sampling.zoo.crawl`"
    if not path.is_file():
        raise ZooTableError(f"{path}: no such file; {remedy}")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names, settings = list(reader.fieldnames or ()), setting_columns()
        columns = ("operator", *settings, *COUNT_COLUMNS)
        repeated = len(set(names)) < len(names)
        if repeated or not {"operator", *COUNT_COLUMNS} <= {*names} <= {*columns}:
            raise ZooTableError(f"{path}: its columns are not {', '.join(columns)}; {remedy}")
        rows = []
        for line in reader:
            try:
                rows.append(_parse(line, [name for name in settings if name in names]))
            except (ValueError, AttributeError) as error:  # a bad number, or a short line
                raise ZooTableError(f"{path}, line {reader.line_num}: {error}; {remedy}") from error
    if not rows:
        raise ZooTableError(f"{path}: no rows; {remedy}")
    return rows


def _parse(line: dict[str, str], settings: Sequence[str]) -> ZooRow:
    values = {name: _parse_value(line[name]) for name in settings if line[name]}
    calls, networks = int(line["calls"]), int(line["networks"])
    evaluation = tuple(line["evaluation"].split())
    if not 0 <= networks <= calls or not (networks or evaluation):
        raise ValueError(f"calls={calls}, networks={networks}: each network calls an operator at least once")
    return ZooRow(
        settings=settings_from_dict(line["operator"], values),
        calls=calls,
        networks=networks,
        examples=tuple(line["examples"].split()),
        evaluation=evaluation,
    )


def _parse_value(text: str) -> Any:
    if text == str(True):
        return True
    if text[0].isalpha():
        return text
    numbers = [int(part) for part in text.split("x")]
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def common_shares(rows: Iterable[ZooRow]) -> dict[str, float]:
    """Share of each evaluation network's shapes that other networks also have, in [0, 1], by network.

    One-Shot Tuner (section 5) reports 9-12 % and keeps these shapes, because leaving them out distorts the
    distribution of layers. Networks of a large zoo share far more, so `task_sampling` can leave them out.
    """
    counted: set[OperatorSettings] = set()
    found: defaultdict[str, set[OperatorSettings]] = defaultdict(set)
    for row in rows:
        shape = shape_of(row.settings)
        if row.networks:
            counted.add(shape)
        for network in row.evaluation:
            found[network].add(shape)
    return {network: len(shapes & counted) / len(shapes) for network, shapes in found.items()}
