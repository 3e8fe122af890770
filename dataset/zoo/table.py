"""The table of operator settings found in model zoos: what the prior counts, as a CSV file."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..operators import OPERATOR_SETTINGS, BatchMatmul, OperatorSettings, settings_from_dict
from ..operators.window import SlidingWindow

ZOO_TABLE = Path(__file__).with_name("prior_table.csv")
"""The table that comes with the package; `python -m foretune.dataset.zoo.crawl` writes it."""

NOT_CRAWLED = ("dtype", "layout", "prepack")
"""Settings that a zoo's operator calls do not tell: PyTorch builds networks in float32, channels first."""

_FIELDS = dict.fromkeys(
    f.name for cls in OPERATOR_SETTINGS.values() for f in fields(cls) if f.name not in NOT_CRAWLED
)
SETTING_COLUMNS = (*(name for name in _FIELDS if name != "epilogue"), "epilogue")
COLUMNS = ("operator", *SETTING_COLUMNS, "calls", "networks", "examples", "evaluation")

MAX_EXAMPLES = 2


class ZooTableError(UserError, ValueError):
    """A file is no table of operator settings."""


@dataclass(frozen=True)
class ZooRow:
    """One distinct operator of the zoos with its epilogue, float32 and channels first."""

    settings: OperatorSettings
    calls: int
    """Calls of it in one inference of every network."""
    networks: int
    """Networks that call it; as a tuner has one task a network for equal calls, the number of such tasks."""
    examples: tuple[str, ...]
    """Up to MAX_EXAMPLES networks that call it."""
    evaluation: tuple[str, ...]
    """Evaluation networks that have it; they do not count in `calls` and `networks`."""


def shape_of(settings: OperatorSettings) -> OperatorSettings:
    """The same operator as plain float32, channels first, nothing fused: what makes two tasks alike."""
    changes: dict[str, Any] = {"epilogue": "none", "dtype": "float32", "prepack": False}
    if isinstance(settings, SlidingWindow):
        changes["layout"] = settings.layouts[0]
    if isinstance(settings, BatchMatmul):
        changes["transpose_right"] = False
    return replace(settings, **changes)


def write_zoo_table(rows: Iterable[ZooRow], path: Path) -> None:
    """Writes the rows as CSV, a pair of numbers as `3x3`; settings that have their default stay empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
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
    """Reads what `write_zoo_table` wrote; raises ZooTableError with the line that is wrong."""
    remedy = "write it again with `python -m foretune.dataset.zoo.crawl`"
    if not path.is_file():
        raise ZooTableError(f"{path}: no such file; {remedy}")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ZooTableError(f"{path}: its columns are not {', '.join(COLUMNS)}; {remedy}")
        rows = []
        for line in reader:
            try:
                rows.append(_parse(line))
            except (ValueError, AttributeError) as error:  # a bad number, or a short line
                raise ZooTableError(f"{path}, line {reader.line_num}: {error}; {remedy}") from error
    if not rows:
        raise ZooTableError(f"{path}: no rows; {remedy}")
    return rows


def _parse(line: dict[str, str]) -> ZooRow:
    values = {name: _parse_value(line[name]) for name in SETTING_COLUMNS if line[name]}
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
    """By evaluation network, the share of its shapes that other networks have too, in [0, 1].

    One-Shot Tuner (section 5) reports 9-12 % and keeps them, as taking them out distorts the distribution of
    layers. Families of a large zoo share far more, so `task_sampling` can leave them out.
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
