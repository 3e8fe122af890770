"""Settings as JSON values."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretune.configuration import as_json


@dataclass(frozen=True)
class Inner:
    folder: Path
    rate: float = 0.5


@dataclass(frozen=True)
class Outer:
    inner: Inner
    folders: list[Path]
    notes: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None


def test_settings_become_json_values():
    found = as_json(Outer(Inner(Path("a/b")), [Path("c")], {"path": Path("d"), "k": [1, Path("e")]}))
    assert found == {
        "inner": {"folder": "a/b", "rate": 0.5},
        "folders": ["c"],
        "notes": {"path": "d", "k": [1, "e"]},
        "threads": None,
    }
    assert json.loads(json.dumps(found)) == found


def test_dataclasses_inside_of_mappings_and_lists_become_objects():
    inner = Inner(Path("a"))
    assert as_json({"one": inner, "more": [inner]})["more"] == [{"folder": "a", "rate": 0.5}]
