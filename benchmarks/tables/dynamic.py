"""Rows of networks of dynamic shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ..dynamic.engines import BUCKETS, FORETUNE, RIVAL_ENGINES
from ..dynamic.summary import claimed, over_fixed
from .declare import name_of
from .reading import Result, milliseconds


def networks(result: Result) -> Iterator[dict[str, Any]]:
    """A row for each network, with the rival that is fastest at most sizes and the size of the libraries."""
    for name, one in result.values["networks"].items():
        rows = [row for row in result.values["rows"] if row["network"] == name]
        megabytes = {row["engine"]: row["library_mb"] for row in rows}
        ranges = ", ".join(f"{symbol} {low}-{high}" for symbol, (low, high) in one.get("symbols", {}).items())
        yield {
            **one,
            **over_fixed(rows, one),
            "dynamic_network": name,
            "range": ranges or "no library",
            "best_rival": best_rival(rows),
            "library_mb": megabytes.get(FORETUNE),
            "buckets_mb": megabytes.get(BUCKETS),
        }


def best_rival(rows: Sequence[dict[str, Any]]) -> str | None:
    """Name of the rival that is the fastest at most sizes."""
    found: Counter[str] = Counter()
    for known in claimed(rows).values():
        rivals = [engine for engine in RIVAL_ENGINES if engine in known]
        found.update([min(rivals, key=lambda engine: known[engine])] if rivals else [])
    return name_of("engine", found.most_common(1)[0][0]) if found else None


def note(found: Sequence[Result]) -> str:
    """Settings, and the causes of networks without a library and of engines that failed."""
    (result,) = found
    said = f"{result.values['threads']} threads, float32."
    failed = {
        (row["network"], row["engine"]): row["error"]
        for row in reversed(result.values["rows"])
        if row["error"]
    }
    texts = [
        f"{name_of('engine', engine)} with {name_of('dynamic_network', network)} "
        f"({error.partition(' (')[0].rstrip('.')})"
        for (network, engine), error in failed.items()
    ]
    return said + (f" Failed: {'; '.join(sorted(texts))}." if texts else "")


def engines(result: Result) -> Iterator[dict[str, Any]]:
    """Rows of engines at sizes; what holds for all sizes of a network is in its first row alone."""
    seen = set()
    for row in result.values["rows"]:
        first = (row["network"], row["engine"]) not in seen
        seen.add((row["network"], row["engine"]))
        of_all = ("ready_s", "library_mb", "peak_mb")
        yield {
            **row,
            **({} if first else dict.fromkeys(of_all)),
            "later_s": row["latency_s"],
            "failed": bool(row["error"]),
        }


def sizes(result: Result, network: str) -> Iterator[dict[str, Any]]:
    """A row for each engine and size of a network, with the latency's cell."""
    for row in result.values["rows"]:
        if row["network"] == network and row["size"]:
            latency_s = row["latency_s"]
            text = "disturbed" if row["disturbed"] else "-" if latency_s is None else milliseconds(latency_s)
            yield {**row, "cell": "failed" if row["error"] else text}
