"""Results in the order of the pages, and how numbers are written."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common import RESULTS, Spread, geometric_mean, read_json

MACHINES = {
    "zen5": "AMD Zen 5",
    "zen4": "AMD Zen 4",
    "zen3": "AMD Zen 3",
    "xeon-207": "Intel Xeon (model 207)",
    "xeon-167": "Intel Xeon (model 167)",
    "nvidia-h200": "NVIDIA H200",
    "nvidia-h100-80gb-hbm3": "NVIDIA H100",
}
"""Names of machines in the order of the tables; others follow under their short name."""


WIDTH = 120
"""Columns of a line of text."""


@dataclass(frozen=True)
class Result:
    """One `result.json` with its manifest."""

    folder: Path
    values: Mapping[str, Any]
    manifest: Mapping[str, Any]

    @property
    def machine(self) -> str:
        name = self.manifest["machine"]
        return MACHINES.get(name, name)

    @property
    def search(self) -> str:
        """Search that was measured: as the result says, or the defaults of the commit, or of each one's."""
        said = self.values.get("search")
        commits = " and ".join(self._commits_of_networks() or [self.commit])
        return said or " ".join(["defaults", *self.values.get("overrides", []), f"of {commits}"])

    def _commits_of_networks(self) -> list[str]:
        """First digits of the commits that networks name, where runs of several were kept."""
        named = [one["commit"] for one in self.values.get("networks", {}).values() if "commit" in one]
        return list(dict.fromkeys(commit[:7] for commit in named))

    @property
    def commit(self) -> str:
        """First digits of the commit, `?` where it is not known."""
        return (self.manifest["commit"] or "?")[:7]

    @property
    def date(self) -> str:
        """Day of the measurement; `by` a day where only the day of the commit is known."""
        started = self.manifest["started_at"]
        return started[:10] if started else f"by {self.manifest['committed_on']}"

    @property
    def path(self) -> str:
        return f"`{self.folder.parent.name}/{self.folder.name}`"


class Results:
    """All results of a folder."""

    def __init__(self, root: Path = RESULTS) -> None:
        self.root = root

    def of(self, benchmark: str, variant: str | None = None) -> list[Result]:
        """Results of a benchmark in the order of machines; of all variants where none is named."""
        found = [read_result(path.parent) for path in sorted(self.root.glob(f"{benchmark}/*/result.json"))]
        chosen = [one for one in found if variant is None or one.manifest["variant"] == variant]
        order = list(MACHINES)
        return sorted(
            chosen,
            key=lambda one: (
                order.index(one.manifest["machine"]) if one.manifest["machine"] in order else len(order),
                one.folder.name,
            ),
        )

    def one(self, benchmark: str, folder: str) -> Result | None:
        """The result of one folder, None where there is none."""
        path = self.root / benchmark / folder
        return read_result(path) if (path / "result.json").is_file() else None


def read_result(folder: Path) -> Result:
    """Raises FileNotFoundError where a result has no manifest."""
    return Result(folder, read_json(folder / "result.json"), read_json(folder / "manifest.json"))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table with a note below it."""
    lines = [heads, ["---"] * len(heads), *rows]
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{text}\n\n{textwrap.fill(note, WIDTH, break_on_hyphens=False)}" if note else text


def not_measured(command: str) -> str:
    """Stands for a table whose result is not there."""
    return f"Not measured yet: `{command}`."


def mean_times(ratios: Sequence[float], count: int) -> str:
    """Geometric mean of the ratios that are known, with their number where `count` were asked for."""
    if not ratios:
        return "-"
    return times(geometric_mean(ratios)) + ("" if len(ratios) == count else f" of {len(ratios)}")


def times(value: float | None) -> str:
    """A ratio: 1.27x, and 142x from ten on; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f}x" if value >= 9.95 else f"{value:.2f}x"


def times_spread(spread: Spread) -> str:
    """A mean ratio with the least and the most, where these differ."""
    if spread.least == spread.most:
        return times(spread.middle)
    return f"{times(spread.middle)} ({times(spread.least)} to {times(spread.most)})"


def milliseconds(seconds: float | None) -> str:
    """Three digits: 7.87 ms, 126 ms, 0.0455 ms; a dash for None."""
    if seconds is None:
        return "-"
    value = 1e3 * seconds
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f} ms"


def duration(seconds: float) -> str:
    """43 s, 1 min 10 s, 17 min, 2.1 h; tenths below 20 s."""
    if seconds < 19.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole / 60:.0f} min" if whole < 5400 else f"{whole / 3600:.1f} h"


def joined(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
