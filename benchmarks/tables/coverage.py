"""Rows of the sweep over public networks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from .declare import names
from .reading import Result

CAUSES = {
    "shape depends on data|reads a number of a tensor": "shape or number that depends on data",
    "draws random numbers": "random numbers",
    "changes its (input|buffer)": "input or buffer that changes",
    "(input|output) is complex|of complex numbers": "complex numbers",
    "importer has no": "operator without a conversion",
    "torch.export failed": "torch.export fails",
    "differs from the original": "other values than the original's, found by the run before the search",
    "is of (strings|sequence|optional)|sequences and optional": "strings, sequences, optional values",
    "cannot be an input|every extent must": "input of bfloat16 or of a smaller type, or empty",
    "shape of its output depends on values": "shape that depends on values",
    "output is random|draws random": "random numbers",
    "is not constant": "size that is no constant",
    "depends on values|repeats a graph": "control flow",
    "cannot be lowered": "operator without a conversion",
    "builds no code": "operator without code",
    "importer fails": "operator that TVM's importer fails on",
}
"""Kinds of causes by patterns in their texts."""


SUPPORTED = "all of supported values"

MOST_NAMES = 12
"""Names of cases with one cause that a table has; the others are in the result."""


def suite_families(result: Result) -> Iterator[dict[str, Any]]:
    """Cases of a suite with their family, under SUPPORTED if it has other families, and under `all`."""
    rows, others = result.values["rows"], result.values.get("unsupported", [])
    for family in [*dict.fromkeys(row["family"] for row in rows), *([SUPPORTED] if others else []), "all"]:
        for row in rows:
            counted = family == SUPPORTED and row["family"] not in others
            if counted or family in (row["family"], "all"):
                outcome = row["outcome"]
                yield {
                    "family": family,
                    "case": row["case"],
                    "passed": int(outcome == "passed"),
                    "refused": int(outcome == "refused"),
                    "wrong": int(outcome == "accepted wrong"),
                    "other": int(outcome not in ("passed", "refused", "accepted wrong")),
                }


def suite_causes(result: Result) -> Iterator[dict[str, Any]]:
    """Cases of a suite that did not pass, by the kind of their cause."""
    rows = [row for row in result.values["rows"] if row["outcome"] != "passed"]
    kinds: dict[str, list[str]] = {}
    for row in rows:
        found = [kind for pattern, kind in CAUSES.items() if re.search(pattern, row["cause"])]
        kind = found[0] if row["outcome"] == "refused" and found else row["outcome"]
        kinds.setdefault(kind, []).append(row["case"].rpartition("/")[2])
    for kind, cases in sorted(kinds.items(), key=lambda item: -len(item[1])):
        named = ", ".join(f"`{case}`" for case in cases[:MOST_NAMES])
        more = len(cases) - MOST_NAMES
        yield {"cause": kind, "cases": len(cases), "names": named + (f" and {more} more" if more > 0 else "")}


def suite_note(found: Sequence[Result]) -> str:
    """Cases without a run, and zoos that are not installed."""
    values = found[0].values
    waiting = len(values["pending"])
    said = f"Not run yet: {waiting} of {waiting + len(values['rows'])} cases." if waiting else ""
    missing = values.get("missing_zoos")
    return said + (f" Not installed: {', '.join(missing)}." if missing else "")


def families(result: Result) -> Iterator[dict[str, Any]]:
    """Networks with their family, and once more under `all`."""
    rows = result.values["rows"]
    zoos: dict[str, Counter[str]] = {}
    for row in rows:
        for family in (row["family"], "all"):
            zoos.setdefault(family, Counter())[row["zoo"]] += 1
    named = {family: ", ".join(f"{zoo} {n}" for zoo, n in of.most_common()) for family, of in zoos.items()}
    for family in [*dict.fromkeys(row["family"] for row in rows), "all"]:
        for row in rows:
            if family in (row["family"], "all"):
                passed = {"passed": int(row["passed"]), "tasks": row["tasks"] if row["passed"] else None}
                yield {**row, **passed, "family": family, "zoos": named[family]}


def note(found: Sequence[Result]) -> str:
    """Conditions of the runs, and the networks without one."""
    values = found[0].values
    waiting = len(values["pending"])
    not_counted = ", ".join(f"{name} ({why})" for name, why in values["not_counted"].items())
    limits = f"at most {values['limit_s']:.0f} s and {values['limit_mb']:,.0f} MB for each network"
    said = (
        f"`{' '.join(values['overrides'])}`, {limits}. Not run yet: {waiting} of "
        f"{waiting + len(values['rows'])} networks of the list. Not counted: {not_counted}."
    )
    recast = sorted({text for row in values["rows"] for text in row.get("recast", [])})
    said += f" Run in another data type: {', '.join(recast)}." if recast else ""
    return said + (f" Not installed: {', '.join(values['missing_zoos'])}." if values["missing_zoos"] else "")


def failures(result: Result) -> Iterator[dict[str, Any]]:
    """Networks that did not pass, with the cause on one line."""
    for row in result.values["rows"]:
        if not row["passed"]:
            cause = " ".join(row["cause"].split()).replace("|", "/")
            yield {**row, "cause": cause if len(cause) <= 240 else f"{cause[:237]}..."}


def seconds(result: Result) -> Iterator[dict[str, Any]]:
    """Steps of the networks that passed."""
    for step in names()["step"]:
        for row in result.values["rows"]:
            if row["passed"] and step in row["stage_s"]:
                yield {"step": step, "seconds": row["stage_s"][step]}
