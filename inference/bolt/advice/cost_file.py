"""Costs of activations stored in a file, from which a run continues after an interruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...database.folder import append_notes, drop_unfinished_line, read_notes
from .exchange import Cost

KEPT_FILE = "activations.jsonl"
"""Name of the file, which is stored next to the advice."""


class KeptCosts:
    """Costs of activations by layer, appended to a file with each measurement."""

    def __init__(self, path: Path | None, conditions: Mapping[str, object]) -> None:
        """`conditions` influence costs in addition to a layer's programs. Costs under others are ignored.

        Without a path, the costs are lost at the end of the run. Task and programs together identify a layer,
        because other programs have other costs.
        """
        self._path = path
        self._conditions = dict(conditions)
        self._costs: dict[str, dict[str, Cost]] = {}
        self._asked: dict[str, set[str]] = {}
        self._disturbed: set[str] = set()
        if path is None:
            return
        drop_unfinished_line(path)
        read_notes(path, self._read)

    def _read(self, note: Mapping[str, Any]) -> None:
        if note["conditions"] == self._conditions:
            costs = {name: Cost(**cost) for name, cost in note["costs"].items()}
            self._take(note["layer"], note["asked"], costs, note["disturbed"])

    def costs(self, layer: str, names: Sequence[str]) -> dict[str, Cost] | None:
        """Stored costs of a layer's activations; None if one of the names has not been requested before.

        A name without a cost is an activation that no program runs with.
        """
        if not set(names) <= self._asked.get(layer, set()):
            return None
        return self._costs[layer]

    def is_disturbed(self, layer: str) -> bool:
        """Whether other work of the machine disturbed the measurement of a layer's stored costs."""
        return layer in self._disturbed

    def keep(
        self, layer: str, names: Sequence[str], costs: Mapping[str, Cost], disturbed: bool = False
    ) -> None:
        """Adds the costs of a layer; `names` are the requested activations."""
        kept = {name: asdict(cost) for name, cost in costs.items()}
        of_layer = {"layer": layer, "conditions": self._conditions, "disturbed": disturbed}
        note = {**of_layer, "asked": [*names], "costs": kept}
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            append_notes(self._path, [note])
        self._take(layer, names, costs, disturbed)

    def _take(self, layer: str, names: Sequence[str], costs: Mapping[str, Cost], disturbed: bool) -> None:
        """Stores a layer's costs in memory; later costs replace earlier ones."""
        (self._disturbed.add if disturbed else self._disturbed.discard)(layer)
        self._costs[layer] = dict(costs)
        self._asked[layer] = set(names)
