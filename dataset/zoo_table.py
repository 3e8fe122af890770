"""The table of operator settings found in model zoos: what the prior counts, as a CSV file."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import UserError
from .operators import OPERATOR_SETTINGS, OperatorSettings, settings_from_dict

ZOO_TABLE = Path(__file__).with_name("prior_table.csv")
"""The table that comes with the package; `python -m foretune.dataset.zoo_crawl` writes it."""

NOT_CRAWLED = ("epilogue", "dtype")
"""Settings that a zoo's operator calls do not tell."""

SETTING_COLUMNS = tuple(
    dict.fromkeys(
        f.name for cls in OPERATOR_SETTINGS.values() for f in fields(cls) if f.name not in NOT_CRAWLED
    )
)
COLUMNS = ("operator", *SETTING_COLUMNS, "calls", "networks", "examples", "evaluation")


class ZooTableError(UserError, ValueError):
    """A file is no table of operator settings."""


@dataclass(frozen=True)
class ZooRow:
    """One distinct operator of the zoos, float32 and without an epilogue."""

    settings: OperatorSettings
    calls: int
    """Calls of it in one inference of every network."""
    networks: int
    """Networks that call it; as a tuner has one task a network for equal calls, the number of such tasks."""
    examples: tuple[str, ...]
    """Up to three networks that call it."""
    evaluation: tuple[str, ...]
    """Evaluation networks that have it; they do not count in `calls` and `networks`."""


def write_zoo_table(rows: Iterable[ZooRow], path: Path) -> None:
    """Writes the rows as CSV, a pair of numbers as `3x3`."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            values = {k: v for k, v in asdict(row.settings).items() if k not in NOT_CRAWLED}
            writer.writerow(
                {
                    "operator": row.settings.operator,
                    **{k: "x".join(map(str, v)) if isinstance(v, tuple) else v for k, v in values.items()},
                    "calls": row.calls,
                    "networks": row.networks,
                    "examples": " ".join(row.examples),
                    "evaluation": " ".join(row.evaluation),
                }
            )


def read_zoo_table(path: Path = ZOO_TABLE) -> list[ZooRow]:
    """Reads what `write_zoo_table` wrote; raises ZooTableError with the line that is wrong."""
    remedy = "write it again with `python -m foretune.dataset.zoo_crawl`"
    if not path.is_file():
        raise ZooTableError(f"{path}: no such file; {remedy}")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = set(reader.fieldnames or ())
        # A table from before an operator was known lacks the settings that only this operator has.
        if not set(COLUMNS) - set(SETTING_COLUMNS) <= columns <= set(COLUMNS):
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
    values = {name: _parse_value(line[name]) for name in SETTING_COLUMNS if line.get(name)}
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
    numbers = [int(part) for part in text.split("x")]
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def common_shares(rows: Iterable[ZooRow]) -> dict[str, float]:
    """By evaluation network, the share of its distinct operators that other networks have too, in [0, 1].

    One-Shot Tuner (section 5) reports 9-12 % and keeps them, as taking them out distorts the distribution of
    layers. Families of a large zoo share far more, so `task_sampling` can leave them out.
    """
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for row in rows:
        for network in row.evaluation:
            found[network].append(row.networks > 0)
    return {network: sum(common) / len(common) for network, common in found.items()}
