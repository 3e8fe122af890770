"""One network: libraries, engines, and their latencies size by size."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretune.compiler.networks.dynamic.dynamic_inputs import Sizes, sizes_text
from foretune.inference.deploy.rivals.registry import RIVALS
from foretune.inference.dynamic.comparison import Entrant, SizesComparison

from ..common import kept_run
from .engines import FORETUNE, RIVAL_ENGINES, SEARCHES
from .libraries import Builder, BuildError, Built, Libraries, Step
from .networks import Subject
from .progress import SIZE

TURN_S = 0.1
"""Seconds of calls in a turn."""

LIMIT_S = 4.0
"""Seconds of turns at one size after which an engine gets no further turn."""

START_LIMIT_S = 300.0
"""Seconds that an engine may take to start, to load the network, and for a first call."""


@dataclass(frozen=True)
class Settings:
    """Settings that determine the rows of a network."""

    engines: Sequence[str]
    sizes: Sequence[Sizes]
    runs: int
    commit: str | None


def measure(name: str, subject: Subject, settings: Settings, folder: Path, step: Step) -> dict[str, Any]:
    """Rows of a network and facts about it. Libraries and sizes of an earlier call are kept in `folder`.

    `step` may end the call between two steps. A network without a library has one row, with the cause.
    """
    with Builder() as builder:
        libraries = Libraries(subject, folder.resolve(), builder, step, settings.commit)
        try:
            built = libraries.build(settings.engines, settings.sizes)
        except BuildError as error:
            return {"rows": [_row(name, FORETUNE, error=str(error))], "facts": {"error": str(error)}}
    entrants = [*built.entrants, *_rivals(settings.engines)]
    with _Contest(subject, entrants) as contest:
        sizes = [
            step(
                *(SIZE, sizes_text(one)),
                lambda one=one: kept_run(
                    folder / "sizes" / f"{sizes_text(one).replace(', ', '-')}.json",
                    {**asdict(settings), "sizes": dict(one)},
                    lambda: contest.at(one, settings.runs),
                ),
            )
            for one in settings.sizes
        ]
    facts = {**facts_of(subject, built), "largest_peak_mb": {}, "error": ""}
    if built.largest:
        facts["largest_peak_mb"] = step(
            *(SIZE, "memory"),
            lambda: kept_run(
                folder / "memory.json", asdict(settings), lambda: _largest_peaks(subject, built.largest)
            ),
        )["peak_mb"]
    result = {"rows": rows_of(name, built, sizes), "facts": facts}
    for library in folder.glob("*.so"):
        library.unlink()
    shutil.rmtree(folder / "database", ignore_errors=True)
    return result


class _Contest:
    """Engines that start for the first size which is not kept."""

    def __init__(self, subject: Subject, entrants: Sequence[Entrant]) -> None:
        self._subject, self._entrants = subject, entrants
        self._comparison: SizesComparison | None = None

    def __enter__(self) -> _Contest:
        return self

    def __exit__(self, *_: object) -> None:
        if self._comparison is not None:
            self._comparison.__exit__(None, None, None)

    def at(self, sizes: Sizes, runs: int) -> dict[str, Any]:
        """Timings of all engines at one size, and how they became ready."""
        if self._comparison is None:
            self._comparison = _comparison(self._subject, self._entrants)
            self._comparison.__enter__().start()
        timings = self._comparison.at(sizes, repeats=runs, seconds=TURN_S, limit_s=LIMIT_S)
        starts = self._comparison.starts.values()
        return {"timings": [asdict(one) for one in timings], "starts": [asdict(one) for one in starts]}


def _comparison(subject: Subject, entrants: Sequence[Entrant]) -> SizesComparison:
    return SizesComparison(
        subject.load(),
        subject.arguments,
        subject.dynamic_arguments,
        subject.dynamic,
        subject.draw,
        entrants,
        limit_s=START_LIMIT_S,
    )


def _largest_peaks(subject: Subject, entrants: Sequence[Entrant]) -> dict[str, Any]:
    """Largest resident megabytes of processes that run the largest sizes alone, by engine."""
    with _comparison(subject, entrants) as comparison:
        comparison.start()
        comparison.at(subject.highest, repeats=1, seconds=0.0, limit_s=LIMIT_S)
        return {"peak_mb": {one.name: one.peak_mb for one in comparison.starts.values() if not one.error}}


def _rivals(engines: Sequence[str]) -> list[Entrant]:
    return [Entrant(name, RIVALS[name]) for name in RIVAL_ENGINES if name in engines]


def rows_of(name: str, built: Built, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each engine and size, and one without a size for each engine that did not start.

    `found` are the values of `_Contest.at`, one for each size.
    """
    starts: dict[str, dict[str, Any]] = {}
    for one in found:
        for start in one["starts"]:
            known = starts.setdefault(start["name"], dict(start))
            known["peak_mb"] = max(known["peak_mb"] or 0.0, start["peak_mb"] or 0.0) or None
            known["error"] = known["error"] or start["error"]
    rows = [
        _row(
            name,
            timing["name"],
            size=sizes_text(timing["sizes"]),
            sizes=timing["sizes"],
            latency_s=timing["latency_s"],
            first_call_s=timing["first_s"],
            recompilations=timing["compilations"],
            max_abs_difference=timing["max_abs_difference"],
            disturbed=timing["disturbed"],
            error=timing["error"],
        )
        for one in found
        for timing in one["timings"]
    ]
    seen = {row["engine"] for row in rows}
    rows += [
        _row(name, engine, error=start["error"]) for engine, start in starts.items() if engine not in seen
    ]
    rows += [_row(name, engine, error=reason) for engine, reason in built.left_out.items()]
    for row in rows:
        start = starts.get(row["engine"], {})
        row["ready_s"], row["peak_mb"] = start.get("ready_s"), start.get("peak_mb")
        row["library_mb"] = built.library_mb.get(row["engine"], start.get("file_mb"))
        row["version"] = start.get("version", "")
    return rows


def _row(network: str, engine: str, **values: Any) -> dict[str, Any]:
    """A row with all fields; a field that is not given is unknown."""
    unknown = ("size", "sizes", "latency_s", "first_call_s", "recompilations", "max_abs_difference")
    others = dict.fromkeys((*unknown, "ready_s", "library_mb", "peak_mb"))
    return {
        "network": network,
        "engine": engine,
        **others,
        "version": "",
        "disturbed": False,
        "error": "",
    } | values


def facts_of(subject: Subject, built: Built) -> dict[str, Any]:
    """Facts about a network and its library."""
    symbols = subject.dynamic.symbols.values()
    return {
        "symbols": {one.name: [one.low, one.high] for one in symbols},
        "tasks": built.about["tasks"],
        "plain": len(built.about["plain"]),
        "stage_s": built.about.get("stage_s", {}),
        "library_s": {engine: list(seconds) for engine, seconds in built.library_s.items()},
        "searches": SEARCHES,
    }
