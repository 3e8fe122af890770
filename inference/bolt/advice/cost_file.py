"""Costs of activations kept in a file, so that a run that was stopped goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ...database.folder import append_notes, drop_unfinished_line, read_notes
from .exchange import Cost

KEPT_FILE = "activations.jsonl"
"""Name of the file beside the advice."""


class KeptCosts:
    """Costs of activations by layer, appended to a file as they are measured."""

    def __init__(self, path: Path | None, conditions: Mapping[str, object]) -> None:
        """`conditions` are what costs depend on beside the layer's programs; those under others do not count.

        Without a path nothing outlives the run.
        A layer is known by its task and programs together, since other programs have other costs.
        """
        self._path = path
        self._conditions = dict(conditions)
        self._costs: dict[str, dict[str, Cost]] = {}
        self._asked: dict[str, set[str]] = {}
        if path is None:
            return
        drop_unfinished_line(path)
        for note in read_notes(path):
            if note["conditions"] == self._conditions:
                costs = {name: Cost(**cost) for name, cost in note["costs"].items()}
                self._take(note["layer"], note["asked"], costs)

    def costs(self, layer: str, names: Sequence[str]) -> dict[str, Cost] | None:
        """Costs of a layer's activations that were kept; None where one of the names was not asked for.

        A name without a cost is one that no program runs with.
        """
        if not set(names) <= self._asked.get(layer, set()):
            return None
        return self._costs[layer]

    def keep(self, layer: str, names: Sequence[str], costs: Mapping[str, Cost]) -> None:
        """Adds the costs of a layer, of which those of `names` were asked for."""
        kept = {name: asdict(cost) for name, cost in costs.items()}
        note = {"layer": layer, "conditions": self._conditions, "asked": [*names], "costs": kept}
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            append_notes(self._path, [note])
        self._take(layer, names, costs)

    def _take(self, layer: str, names: Sequence[str], costs: Mapping[str, Cost]) -> None:
        """Takes a layer's costs; later ones replace earlier ones."""
        self._costs[layer] = dict(costs)
        self._asked[layer] = set(names)
