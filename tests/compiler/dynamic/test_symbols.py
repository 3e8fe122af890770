"""Symbols of dynamic shapes: ranges, extents in terms of them, files of sizes, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.dynamic.symbols import (
    DynamicShapeError,
    Extent,
    Symbol,
    extents_and_ranges,
    joined,
    require_symbols,
    symbols_of_dims,
)


@pytest.mark.parametrize(
    ("text", "extent", "shown", "at_3"),
    [
        ("n", Extent("n"), "n", 3),
        ("8*n", Extent("n", 8), "8*n", 24),
        ("n * 8", Extent("n", 8), "8*n", 24),
        ("n+1", Extent("n", 1, 1), "n+1", 4),
        ("2*length - 1", Extent("length", 2, -1), "2*length-1", 5),
    ],
)
def test_an_extent_is_a_multiple_and_a_sum(text: str, extent: Extent, shown: str, at_3: int) -> None:
    assert Extent.parsed(text, "inputs[0]") == extent
    assert str(extent) == shown
    assert extent.at(3) == at_3 and extent.solved(at_3) == 3


def test_no_whole_number_gives_some_extents() -> None:
    assert Extent("n", 8).solved(20) is None
    assert Extent("n", 2, 1).solved(7) == 3


@pytest.mark.parametrize("text", ["n*m", "n/2", "2*n*3", "", "n m", "-n"])
def test_other_texts_are_no_extents(text: str) -> None:
    with pytest.raises(
        DynamicShapeError, match=r"inputs\[0\].*is no extent; write a number, a range such as"
    ):
        Extent.parsed(text, "inputs[0]")


def test_a_shape_has_ranges_in_it() -> None:
    extents, symbols = extents_and_ranges([1, "n=1:512", "8*n"], "inputs[0]")
    assert extents == [1, Extent("n"), Extent("n", 8)]
    assert symbols == {"n": Symbol("n", 1, 512)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("n=0:4", "n=0:4: a size is at least 1"),
        ("n=9:4", "n=9:4: the range is empty; write 4:9"),
        ("n=4:4", "n=4:4: the range has one size; write 4 in its place"),
        ("n=1-4", "n=1-4: no range; write it as LOW:HIGH"),
        ("n=1:", "n=1:: no range"),
        ("8*n=1:4", "only a symbol has a range"),
    ],
)
def test_wrong_ranges_are_errors(given: str, message: str) -> None:
    with pytest.raises(DynamicShapeError) as error:
        extents_and_ranges([given], "inputs[0]")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_symbol_has_one_range() -> None:
    with pytest.raises(DynamicShapeError, match="n=1:4 and n=1:8: n has two ranges"):
        joined([{"n": Symbol("n", 1, 4)}, {"n": Symbol("n", 1, 8)}])


def test_a_symbol_without_range_or_use_is_an_error() -> None:
    with pytest.raises(DynamicShapeError, match=r"m has no range; give dims.m=1:512"):
        require_symbols(["m"], {}, "net")
    with pytest.raises(
        DynamicShapeError, match=r"dims.lenght: network=net has no extent of this name; did you "
    ):
        require_symbols(
            ["length"], {"length": Symbol("length", 1, 2), "lenght": Symbol("lenght", 1, 2)}, "net"
        )


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"n": {"sizes": "x.csv"}}, "dims.n: has no range; give dims.n.range=1:512"),
        ({"n": {"range": "1:4", "size": "x"}}, "dims.n.size: unknown"),
        ({"n": "4:1"}, "dims.n=4:1: the range is empty"),
        ({"n": "7"}, "dims.n=7: no range"),
    ],
)
def test_wrong_dims_are_errors(dims: dict[str, Any], message: str) -> None:
    with pytest.raises(DynamicShapeError) as error:
        symbols_of_dims(dims)
    assert message in str(error.value)


def test_a_file_tells_which_sizes_are_expected(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("length,count\n16,3\n20\n16,0.5\n")
    assert symbols_of_dims({"n": {"range": "1:64", "sizes": str(path)}})["n"].counts == {16: 3.5, 20: 1.0}
    path.write_text("65\n")
    with pytest.raises(DynamicShapeError, match="n=1:64: its sizes contain 65, which is outside"):
        symbols_of_dims({"n": {"range": "1:64", "sizes": str(path)}})


@pytest.mark.parametrize(
    ("text", "message"), [("", "has no sizes"), ("1\nx\n", "'x' is no size"), ("1,0", "count 0")]
)
def test_wrong_files_of_sizes_are_errors(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(text)
    with pytest.raises(DynamicShapeError) as error:
        symbols_of_dims({"n": {"range": "1:64", "sizes": str(path)}})
    assert str(error.value).startswith(f"dims.n.sizes={path}: ") and message in str(error.value)


def test_a_missing_file_of_sizes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DynamicShapeError, match=r"^dims.n.sizes=.*cannot be read"):
        symbols_of_dims({"n": {"range": "1:64", "sizes": str(tmp_path / "none.csv")}})
