"""Epilogue fusion on and off: the tuned forms, and the rows of the table."""

from __future__ import annotations

from pathlib import Path

from foretune.configuration import from_hydra
from foretune.inference.run.config import TuneConfig
from support.composition import composed

from benchmarks.epilogues import TYPES, arguments_of, searches
from benchmarks.tables import templates
from benchmarks.tables.reading import Result


def test_the_two_forms_of_a_type_differ_by_their_epilogues_alone():
    found = searches(arguments_of([]).types)
    for dtype in TYPES:
        fused, separate = (
            from_hydra(composed("tune", *found[name]), TuneConfig).lowering
            for name in (dtype, f"{dtype} separate")
        )
        assert (fused.dtype, fused.epilogues, separate.epilogues) == (dtype, True, False)
        assert (fused.winograd, fused.attention) == ("off", "off") == (separate.winograd, separate.attention)


def test_rows_are_speeds_of_fusion_by_type():
    run = {name: {"seed": 0, "measured": 1, "search_s": 1.0} for name in searches(["float32", "int8"])}
    times = {"float32": 2.0, "float32 separate": 3.0, "int8": 1.0, "int8 separate": 0.5}
    values = {"networks": {"a": {"runs": [{**run, "side_by_side_s": times}]}}}
    rows = templates.epilogues(Result(Path(), values, {}))
    found = [(row["dtype"], row["speed"], row["fused_s"], row["seed"]) for row in rows]
    assert found == [("float32", 1.5, 2.0, 0), ("int8", 0.5, 1.0, 0)]
