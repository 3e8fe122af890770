"""Results in the order of the pages, and the format of numbers."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common import RESULTS, read_json

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


SUPERSEDED = {
    "dynamic_ratings/xeon-167": "the closed form of its commit; `xeon-167-again` has both",
    "networks_against/zen3": "commits of 2026-11-25",
    "networks_unseen/zen3": "the search of 2026-11-25; `rivals` has newer runs",
    "one_shot_tuner/xeon-167": "a tenth of the records of the later run",
    "reuse_networks/xeon-167-two-templates": "an earlier rule of reuse",
    "reuse_networks/zen3": "an earlier rule of reuse",
    "reuse_networks/zen3-two-templates": "an earlier rule of reuse",
    "reuse_networks/zen4": "an earlier rule of reuse",
    "single_tasks_against/zen3": "commits of 2026-11-25",
    "winograd/xeon-167": "searched all alternatives in full",
}
"""Results that no page shows any longer -> the search or code that they measured; their raw data stay."""

WIDTH = 120
"""Width of a line of text in columns."""


@dataclass(frozen=True, eq=False)
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
    def variant(self) -> str:
        return str(self.manifest["variant"])

    @property
    def date(self) -> str:
        """Day on which the measurement began."""
        return str(self.manifest["started_at"])[:10]

    @property
    def commits(self) -> list[str]:
        """Commits whose runs the result holds, shortened, with `+changes` if files differed from the commit.

        Networks may name their own commits; the notes name runs that extended the result.
        """
        commit = short_commit(self.manifest["commit"])
        networks = self.values.get("networks")
        networks = networks.values() if isinstance(networks, Mapping) else ()
        named = [one["commit"] for one in networks if "commit" in one]
        found = [short_commit(each) for each in named or EXTENDED.findall(self.manifest.get("notes", ""))]
        found = [commit if each == commit.removesuffix(CHANGES) else each for each in found]
        return list(dict.fromkeys([*found, commit]))

    @property
    def measured(self) -> str:
        """Date and commits, in the form of the tables."""
        return f"{self.date}, {', '.join(f'`{commit}`' for commit in self.commits)}"

    @property
    def path(self) -> str:
        return f"`{self.folder.parent.name}/{self.folder.name}`"


CHANGES = "+changes"
EXTENDED = re.compile(r"adds to the runs of commit (\S+?)(?:;|$)")


def short_commit(commit: str) -> str:
    """First seven digits of a commit; a mark of uncommitted changes stays."""
    return commit[:7] + (CHANGES if commit.endswith(CHANGES) else "")


class Results:
    """Results that the pages show."""

    def __init__(self, root: Path = RESULTS) -> None:
        self.root = root

    def of(self, source: str) -> list[Result]:
        """Results of a benchmark in the order of machines.

        `source` is a benchmark (`rivals`: all variants), or with a variant (`rivals/int8`; `rivals/`: none).
        Results with a reconstructed manifest and superseded ones are left out.
        """
        benchmark, one_variant, variant = source.partition("/")
        paths = sorted(self.root.glob(f"{benchmark}/*/result.json"))
        found = [one for one in map(read_result, (path.parent for path in paths)) if self._shown(one)]
        order = list(MACHINES)
        return sorted(
            (one for one in found if not one_variant or one.variant == variant),
            key=lambda one: (
                order.index(one.manifest["machine"]) if one.manifest["machine"] in order else len(order),
                one.folder.name,
            ),
        )

    @staticmethod
    def _shown(result: Result) -> bool:
        return not result.manifest["reconstructed"] and result.path.strip("`") not in SUPERSEDED


def read_result(folder: Path) -> Result:
    """Raises FileNotFoundError for a result without a manifest."""
    return Result(folder, read_json(folder / "result.json"), read_json(folder / "manifest.json"))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table with a note below it."""
    lines = [heads, ["---"] * len(heads), *rows]
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{text}\n\n{textwrap.fill(note, WIDTH, break_on_hyphens=False)}" if note else text


def not_measured(command: str) -> str:
    """Placeholder for a table without a result."""
    return f"Not measured yet: `{command}`."


def times(value: float) -> str:
    """A ratio: 1.27x, or without decimals from ten on: 142x."""
    return f"{value:.0f}x" if value >= 9.95 else f"{value:.2f}x"


def milliseconds(seconds: float) -> str:
    """Three digits: 7.87 ms, 126 ms, 0.0455 ms."""
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
