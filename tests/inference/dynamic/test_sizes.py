"""Sizes at which outputs are compared, and sizes that a library refuses."""

from __future__ import annotations

import pytest
from foretune.compiler.dynamic.symbols import Symbol
from foretune.inference.deploy.arrays import InputError, SizesOfInputs
from foretune.inference.deploy.description import Description, TensorSpec
from foretune.inference.dynamic.sizes import sizes_to_compare

N, B = Symbol("n", 1, 64), Symbol("b", 1, 8)


def test_ends_remainders_primes_and_expected_sizes_are_compared() -> None:
    sizes = [one["n"] for one in sizes_to_compare({"n": N})]
    assert len(sizes) == len(set(sizes)) <= 10 and all(N.contains(size) for size in sizes)
    assert {1, 64, 17, 33, 37} <= set(sizes)  # 37: the first prime over the middle
    assert {40, 41} <= {one["n"] for one in sizes_to_compare({"n": Symbol("n", 1, 64, {40: 2.0, 41: 3.0})})}


def test_symbols_are_compared_at_the_corners_and_side_by_side() -> None:
    sizes = sizes_to_compare({"n": N, "b": B})
    assert [(one["n"], one["b"]) for one in sizes[:4]] == [(1, 1), (1, 8), (64, 1), (64, 8)]
    assert any(1 < one["n"] < 64 and 1 < one["b"] < 8 for one in sizes)
    assert len(sizes) < 16


def test_a_range_of_two_sizes_is_compared_at_both() -> None:
    assert sizes_to_compare({"n": Symbol("n", 1, 2)}) == [{"n": 1}, {"n": 2}]


SPECS = (TensorSpec("ids", ("b", "n"), "int64"), TensorSpec("mask", ("b", "8*n"), "int64"))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            [(2, 65), (2, 520)],
            "input ids: dimension 1 is 65, and n is 1 to 64 (n=1:64); give a size in this range",
        ),
        ([(0, 5), (0, 40)], "input ids: dimension 0 is 0, and b is 1 to 8 (b=1:8)"),
        (
            [(2, 5), (3, 40)],
            "input mask: dimension 0 is 3, so that b is 3, and 2 by dimension 0 of input ids",
        ),
        ([(2, 5), (2, 41)], "input mask: dimension 1 is 41, and 8*n is expected: no whole number n gives it"),
        (
            [(2, 5), (2, 48)],
            "input mask: dimension 1 is 48, so that n is 6, and 5 by dimension 1 of input ids",
        ),
    ],
)
def test_other_sizes_are_refused_by_input_dimension_value_and_range(
    shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError) as error:
        SizesOfInputs(SPECS, [N, B], beyond=False).check(shapes)
    assert message in str(error.value)


def test_all_sizes_in_range_are_accepted() -> None:
    sizes = SizesOfInputs(SPECS, [N, B], beyond=False)
    for b in (1, 8):
        for n in range(1, 65):
            sizes.check([(b, n), (b, 8 * n)])


def test_a_library_tells_its_symbols_and_ranges() -> None:
    described = Description(
        "{}", SPECS, (TensorSpec("output_0", ("b", "n // 2"), "float32"),), (True,), {}, (N, B)
    )
    again = Description.from_json(described.to_json())
    assert again == described and '"version": 2' in described.to_json()
    fixed = Description("{}", (), (), (), {})
    assert '"version": 1' in fixed.to_json() and "symbols" not in fixed.to_json()
    assert str(described.inputs[1]) == "mask: int64 [b, 8*n]"
