"""Settings as JSON values."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from foretune.configuration import ConfigError, as_json, from_hydra
from omegaconf import OmegaConf


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


@dataclass(frozen=True)
class Settings:
    folders: list[Path]
    one: Path = Path("a")
    inner: Inner = field(default_factory=lambda: Inner(Path("b")))
    limits: dict[str, float] = field(default_factory=dict)
    names: list[str] | None = None
    count: int | None = None
    fast: bool = False
    free: Any = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"folders": "a"}, "folders=a: must be a list, as in folders=[a]"),
        ({"folders": None}, "folders=null: must be a list, as in folders=[null]"),
        ({"names": "x"}, "names=x: must be a list, as in names=[x]"),
        ({"one": ["a", "b"]}, "one=[a,b]: must be one path"),
        ({"one": {"k": True}}, "one={k:true}: must be one path"),
        ({"inner": "fast"}, "inner=fast: must be a group of options, as in inner.OPTION=VALUE"),
        ({"inner": {"folder": "c", "rate": "high"}}, "inner.rate=high: must be a number"),
        ({"limits": 3}, "limits=3: must be a group of options, as in limits.OPTION=VALUE"),
        ({"limits": {"gpu": "x"}}, "limits.gpu=x: must be a number"),
        ({"count": 1.5}, "count=1.5: must be a whole number"),
        ({"fast": "perhaps"}, "fast=perhaps: must be true or false"),
    ],
)
def test_a_value_of_another_type_is_named_with_what_it_must_be(given, message):
    with pytest.raises(ConfigError) as found:
        from_hydra(OmegaConf.create({"folders": ["a"], **given}), Settings)
    assert str(found.value) == message


def test_values_that_can_be_converted_are_taken():
    given = {"folders": ["a"], "count": "3", "fast": "yes", "free": {"a": [1]}, "limits": {"gpu": "1e3"}}
    found = from_hydra(OmegaConf.create(given), Settings)
    assert (found.count, found.fast, found.limits, found.free) == (3, True, {"gpu": 1000.0}, {"a": [1]})
