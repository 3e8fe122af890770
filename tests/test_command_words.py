"""Words of a command line, as Hydra's grammar gets them."""

from __future__ import annotations

import pytest
from foretune.command_words import with_quotes
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString


@pytest.mark.parametrize(
    ("value", "runs"),
    [
        ("größe,b", ["größe", "b"]),
        ("ü.onnx,ö.onnx", ["ü.onnx", "ö.onnx"]),
        ("a b,c", ["a b", "c"]),
        ("outputs/lr=1,outputs/größe", ["outputs/lr=1", "outputs/größe"]),
        ("'ü,1',b", ["ü,1", "b"]),
    ],
)
def test_each_value_of_a_sweep_reaches_its_run(value, runs):
    (word,) = with_quotes([f"dataset={value}"], "train", multirun=True)
    override = OverridesParser.create().parse_override(word)
    found = [one.text if isinstance(one, QuotedString) else one for one in override.sweep_iterator()]
    assert found == runs


def test_a_comma_outside_of_a_sweep_belongs_to_the_value():
    (word,) = with_quotes(["dataset=größe,b"], "train")
    assert OverridesParser.create().parse_override(word).value() == "größe,b"
