"""Inputs whose extents are symbols, from the options of a tuning run."""

from __future__ import annotations

from typing import Any

import pytest
from foretune.compiler.dynamic.symbols import DynamicShapeError, Extent, Symbol
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs, is_dynamic

NET = "package.module:Net"


@pytest.mark.parametrize(
    ("inputs", "batch", "dims", "expected"),
    [
        ([[1, 64]], 1, None, False),
        (None, 1, {}, False),
        ([[1, "n=1:8"]], 1, None, True),
        ([{"shape": [1, "n"], "dtype": "int64"}], 1, None, True),
        (None, "1:16", None, True),
        ([[1, 64]], 1, {"n": "1:8"}, True),
        ([{"value": 3}], 1, None, False),
        ([[[1, 64]], [[1, 128]]], [1], None, False),
    ],
)
def test_options_ask_for_dynamic_shapes(inputs: Any, batch: Any, dims: Any, expected: bool) -> None:
    assert is_dynamic(inputs, batch, dims) is expected


def test_inputs_share_symbols() -> None:
    found = dynamic_inputs(
        NET, [{"shape": ["b", "n=1:64"], "dtype": "int64", "high": 9}, ["b", "2*n"], [3]], 1, {"b": "1:8"}
    )
    assert found.symbols == {"b": Symbol("b", 1, 8), "n": Symbol("n", 1, 64)}
    assert found.shapes == ((Extent("b"), Extent("n")), (Extent("b"), Extent("n", 2)), (3,))
    assert found.at({"b": 2, "n": 5}) == [
        {"dtype": "int64", "high": 9, "shape": [2, 5]},
        {"shape": [2, 10]},
        {"shape": [3]},
    ]


def test_a_number_takes_the_place_of_a_symbol() -> None:
    found = dynamic_inputs(NET, [["b", "n=1:64"], ["2*b"]], 1, {"b": 3})
    assert list(found.symbols) == ["n"]
    assert found.shapes == ((3, Extent("n")), (6,))


def test_the_network_is_traced_at_different_sizes_over_1() -> None:
    traced = dynamic_inputs(NET, [["a=1:512", "b=1:512", "c=1:2", "d=100:200"]], 1, None).traced
    assert traced["a"] != traced["b"] and traced["c"] == 2 and traced["d"] == 100
    assert all(size > 1 for size in traced.values())


def test_a_range_is_the_batch_of_a_known_network() -> None:
    found = dynamic_inputs("resnet18", None, "1:16", None)
    assert found.symbols == {"batch": Symbol("batch", 1, 16)}
    assert found.shapes == ((Extent("batch"), 3, 224, 224),)


@pytest.mark.parametrize(
    ("network", "inputs", "batch", "dims", "message"),
    [
        (NET, [["n", 4]], 1, None, "n has no range"),
        (
            NET,
            [["n=1:4", 4]],
            1,
            {"m": "1:4"},
            "dims.m: network=package.module:Net has no extent of this name",
        ),
        (NET, [["n-1"]], 1, {"n": "1:4"}, "inputs[0]: n-1 is 0 for n=1; a size is at least 1"),
        (NET, [["n", 0]], 1, {"n": "1:4"}, "inputs[0]: the extent 0: a size is at least 1"),
        (NET, [["n=1:4"]], "1:2", None, "batch=1:2: inputs= gives the shapes"),
        (NET, None, "1:2", None, "an import path needs input shapes"),
        (NET, [["n"]], 1, {"n": 4}, "dims= gives numbers alone"),
        (NET, [["n=1:4"]], 1, {"m": 4}, "dims.m: network=package.module:Net has no extent of this name"),
        (NET, [["n=1:4", "m"]], 1, {"m": 0}, "dims.m=0: a size is at least 1"),
        ("resnet18", None, "16", None, "batch=16: no range"),
    ],
)
def test_wrong_inputs_are_errors(network: str, inputs: Any, batch: Any, dims: Any, message: str) -> None:
    with pytest.raises(DynamicShapeError) as error:
        dynamic_inputs(network, inputs, batch, dims)
    assert message in str(error.value)
