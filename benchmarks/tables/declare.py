"""Tables that are declared in the YAML files of this folder.

    pooling:
      source: pooling                       # folder of benchmarks/results, or folder/variant
      command: python -m benchmarks.pooling
      rows: layers[]                        # path in result.json, or a function MODULE.NAME of this package
      by: [network]                         # rows with equal values make one row of the table
      columns:
        network: network                    # head: value | format @ aggregate
        latency: latency_s.joined | ms @ median
        speed: latency_s.separate / latency_s.joined | x @ spread
        cell: "{programs:.0f} in {seconds:s@mean}"   # text with fields

A value is a key (with dots for nested values), arithmetic of keys, or a text with fields. The head `{rival}`
makes a column for each value of `rival`. Names of values, and their order, are in `names.yaml`. Other entries
are `with` (arguments of the function in `rows`), `sort` and `only` (order and choice of rows by the values of
a key), `pool` (rows of all results together), `each` (a table for each result) and `note` (a function of the
results).

Date and commit come from the manifests: below a table of one result, in a column of a table of several.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from ..common import Spread, geometric_spread, median_spread
from .reading import Result, Results, duration, markdown, milliseconds, not_measured, times

HERE = Path(__file__).parent
NAMES_FILE = "names.yaml"

RESULT, MACHINE = "_result", "machine"

FORMATS: Mapping[str, Callable[[Any], str]] = {"x": times, "ms": milliseconds, "s": duration}

RUNS = 3
"""Fewest runs that can claim a lead."""

UNSURE = "~"
"""Mark of a claim that is not sure."""

UNSURE_NOTE = "A tilde marks a ratio that claims nothing: fewer than three runs, or a range that contains 1."

FIELD = re.compile(r"\{([^{}]+)\}")
CLAIMED = re.compile(r"claim|@ ?runs")
"""Columns whose cells may have the mark."""

SPEC = re.compile(r"(?P<value>.+?)(?:\s*\|\s*(?P<show>[^@]+?))?(?:\s*@\s*(?P<over>\w+))?")
NAME = re.compile(r"`[^`]+`|(?<![\w.])[A-Za-z_][\w.]*")


@cache
def names() -> dict[str, dict[Any, str]]:
    """Key -> its values in order -> how tables call them."""
    return dict(yaml.safe_load((HERE / NAMES_FILE).read_text(encoding="utf-8")))


def name_of(key: str, value: Any) -> str:
    """Name of a value of a key in tables."""
    return names().get(key, {}).get(value, str(value))


@dataclass(frozen=True)
class Claim(Spread):
    """Median, minimum and maximum of the ratios to a reference, one per run."""

    runs: int

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Claim:
        return cls(statistics.median(ratios), min(ratios), max(ratios), len(ratios))

    @property
    def is_sure(self) -> bool:
        """Whether at least RUNS runs all differ from the reference in the same direction; it needs none."""
        is_reference = self.least == self.most == 1
        return is_reference or (self.runs >= RUNS and not self.least <= 1 <= self.most)


def _log_means(values: pd.Series, group: pd.DataFrame) -> Spread:
    """Geometric mean over networks of those of their runs, with the least and the most network."""
    if values.min() <= 0:
        return Spread(0.0, 0.0, 0.0)
    means = np.exp(np.log(values).groupby(group["network"]).mean())
    return geometric_spread(means.tolist())


def _run_means(values: pd.Series, group: pd.DataFrame) -> Claim:
    """Geometric means over networks, one for each run that has all networks."""
    if values.min() <= 0:
        return Claim(0.0, 0.0, 0.0, 1)
    runs = np.log(values).groupby(group["seed"])
    means = np.exp(runs.mean()[runs.count() == group["network"].nunique()])
    return Claim.of(means.tolist() or [_log_means(values, group).middle])


AGGREGATES: Mapping[str, Callable[[pd.Series, pd.DataFrame], Any]] = {
    "first": lambda values, _: values.iloc[0],
    "count": lambda values, _: len(values),
    "known": lambda values, _: values.count(),
    "unique": lambda values, _: values.nunique(),
    "sum": lambda values, _: values.sum(),
    "mean": lambda values, _: values.mean(),
    "median": lambda values, _: values.median(),
    "least": lambda values, _: values.min(),
    "most": lambda values, _: values.max(),
    "geomean": lambda values, _: geometric_spread(values.tolist()).middle,
    "spread": lambda values, _: geometric_spread(values.tolist()),
    "medians": lambda values, _: median_spread(values.tolist()),
    "claim": lambda values, _: Claim.of(values.tolist()),
    "fewest": lambda values, group: values.groupby(group["network"]).count().min(),
    "bests": lambda values, group: geometric_spread(values.groupby(group["network"]).first().tolist()),
    "runs": _run_means,
    "networks": lambda values, group: _log_means(values, group).middle,
    "network_spread": _log_means,
}


@dataclass(frozen=True)
class Column:
    """One column of a table; see the module for `text`."""

    head: str
    text: str

    def over(self, frame: pd.DataFrame) -> Callable[[np.ndarray], str]:
        """Function from the places of a group's rows to the text of their cell."""
        fields = FIELD.findall(self.text)
        if fields:
            parts = [Column("", re.sub(r":(?=[^:]*$)", "|", one)).over(frame) for one in fields]
            bare = FIELD.split(self.text)[::2]

            def joined(at: np.ndarray) -> str:
                cells = [part(at) for part in parts]
                whole = "".join(cell + rest for cell, rest in zip(cells, bare[1:], strict=True))
                return "-" if set(cells) == {"-"} else bare[0] + whole

            return joined
        spec = SPEC.fullmatch(self.text)
        assert spec is not None
        key, show, aggregate = spec["value"], spec["show"] or "", AGGREGATES[spec["over"] or "first"]
        values = column_of(frame, key)

        def text(at: np.ndarray) -> str:
            known = values.iloc[at]
            known = known if spec["over"] == "count" else known[known.notna()]
            return shown(aggregate(known, frame.iloc[at]), show, key) if len(known) else "-"

        return text


def column_of(frame: pd.DataFrame, key: str) -> pd.Series:
    """Values of a key, or of arithmetic of keys."""
    if key in frame:
        return frame[key]
    if NAME.fullmatch(key):
        return pd.Series(None, frame.index, dtype=object)
    quoted = NAME.sub(lambda name: name[0] if name[0].startswith("`") else f"`{name[0]}`", key)
    return frame.eval(quoted, engine="python")


def shown(value: Any, show: str, key: str = "") -> str:
    """Text of a value; a spread is written with its least and most, a claim that is not sure with a tilde."""
    if isinstance(value, Spread):
        mark = UNSURE if isinstance(value, Claim) and not value.is_sure else ""
        middle, least, most = (shown(one, show) for one in (value.middle, value.least, value.most))
        return mark + (middle if value.least == value.most else f"{middle} ({least} to {most})")
    if isinstance(value, Result):
        return value.measured
    if value is None or value != value:
        return "-"
    if show in FORMATS:
        return FORMATS[show](value)
    return f"{value:{show}}" if show else name_of(key, value)


@dataclass(frozen=True)
class Table:
    """A declared table; the fields are those of its entry."""

    source: str | Sequence[str]
    command: str
    rows: str
    columns: Mapping[str, str] = field(default_factory=dict)
    by: Sequence[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    sort: Sequence[str] = ()
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    pool: bool = False
    each: bool = False
    note: str = ""

    def __call__(self, results: Results) -> str:
        sources = [self.source] if isinstance(self.source, str) else self.source
        found = [result for source in sources for result in results.of(source)]
        groups = [[result] for result in found] if self.each else [found]
        texts = [self.text(frame) for group in groups if not (frame := self.frame(group)).empty]
        return "\n\n".join(texts) or not_measured(self.command)

    def frame(self, found: Sequence[Result]) -> pd.DataFrame:
        """Rows of all results, chosen and in order."""
        frames = [
            rows.assign(**{RESULT: [result] * len(rows), MACHINE: result.machine})
            for result in found
            if len(rows := frame_of(result, self.rows, self.arguments))
        ]
        frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
        for key, chosen in self.only.items() if frames else ():
            frame = frame[frame[key].isin(chosen)]
        for key in reversed(self.sort) if frames else ():
            places = {value: place for place, value in enumerate(self.only.get(key, names().get(key, ())))}
            order = frame[key].map(lambda value, places=places: places.get(value, len(places)))
            frame = frame.loc[order.sort_values(kind="stable").index]
        return frame.reset_index(drop=True)

    def text(self, frame: pd.DataFrame) -> str:
        """Markdown of a frame."""
        results = list(dict.fromkeys(frame[RESULT]))
        columns = dict(self.columns) or {head: head for head in frame if head not in (RESULT, MACHINE)}
        note = function(self.note)(results) if self.note else ""
        if len(results) == 1 or self.pool:
            measured = "; ".join(f"{result.machine}, {result.measured}" for result in results)
            note = f"{measured}. {note}".strip()
        else:
            columns = {MACHINE: MACHINE, **columns, "measured": RESULT}
        by = [*self.by, *([] if self.pool else [RESULT])] if self.by or self.pool else []
        cells = cells_of(frame, columns, by)
        claims = CLAIMED.search(" ".join(columns.values()))
        if claims and cells.map(lambda cell: UNSURE in cell).any(axis=None):
            note = f"{note} {UNSURE_NOTE}".strip()
        return table_text(cells, note)


def cells_of(frame: pd.DataFrame, columns: Mapping[str, str], by: Sequence[str] = ()) -> pd.DataFrame:
    """Texts of a table: a row for each group of equal values of `by`, or for each row of the frame."""
    groups = (
        list(frame.groupby(list(by), sort=False, dropna=False).indices.values())
        if by
        else [np.array([at]) for at in range(len(frame))]
    )
    groups = sorted(groups, key=lambda group: group[0])
    cells: dict[str, list[str]] = {}
    for head, text in columns.items():
        if across := re.fullmatch(r"(.*)\{(\w+)\}(.*)", head):
            for value in in_order(across[2], frame[across[2]].unique()):
                same = (frame[across[2]] == value).to_numpy()
                cell = Column(head, text).over(frame)
                title = f"{across[1]}{name_of(across[2], value)}{across[3]}"
                cells[title] = [cell(group[same[group]]) if same[group].any() else "-" for group in groups]
        else:
            cell = Column(head, text).over(frame)
            cells[head] = [cell(group) for group in groups]
    return pd.DataFrame(cells)


def in_order(key: str, values: Sequence[Any]) -> list[Any]:
    """Values of a key in the order of its names; values without a name come last."""
    places = {value: place for place, value in enumerate(names().get(key, ()))}
    return sorted(values, key=lambda value: places.get(value, len(places)))


def table_text(cells: pd.DataFrame, note: str = "") -> str:
    """Markdown of a frame of texts."""
    return markdown(list(cells.columns), cells.to_numpy().tolist(), note)


def frame_of(result: Result, rows: str, arguments: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of one result; nested values become columns with dots in their names."""
    called = re.fullmatch(r"\w+\.\w+", rows)
    found = function(rows)(result, **arguments) if called else unfold(result.values, rows)
    return found if isinstance(found, pd.DataFrame) else pd.json_normalize(list(found))


def function(name: str) -> Callable[..., Any]:
    """Function of this package by `MODULE.NAME`."""
    module, _, attribute = name.partition(".")
    found: Callable[..., Any] = getattr(import_module(f".{module}", __package__), attribute)
    return found


def unfold(value: Any, path: str, named: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Rows below a path such as `shapes[]` or `networks.{network}.runs[]`.

    `[]` has a row for each item of a list, `{name}` one for each entry of an object, whose key becomes the
    column `name`. A part of the path that is not there has no rows.
    """
    named = named or {}
    if not path:
        return [{**value, **named}]
    head, _, rest = path.partition(".")
    key, listed = head.removesuffix("[]"), head.endswith("[]")
    if key.startswith("{"):
        found = [({**named, key[1:-1]: name}, one) for name, one in value.items()]
    else:
        found = [(named, value[key])] if key in value else []
    if listed:
        found = [(known, item) for known, one in found for item in one]
    return [row for known, one in found for row in unfold(one, rest, known)]


def declared() -> dict[str, Table]:
    """All tables of the YAML files."""
    found = {}
    for path in sorted(HERE.glob("*.yaml")):
        if path.name != NAMES_FILE:
            for name, entry in yaml.safe_load(path.read_text(encoding="utf-8")).items():
                found[name] = Table(arguments=entry.pop("with", {}), **entry)
    return found
