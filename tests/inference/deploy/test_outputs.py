"""Outputs of a compiled network beside those of the original."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from foretune.inference.deploy.outputs import (
    OutputCheck,
    OutputFormError,
    compare_narrow_outputs,
    compare_outputs,
    narrow_differences,
    require_same_form,
)

REFERENCE = [np.array([2.0, -20.0], np.float32)]


@pytest.mark.parametrize(
    ("output", "difference", "agrees"),
    [
        ([2.0, -20.0], 0.0, True),
        ([2.0, -20.001], 0.001, True),  # within 1e-4 of 20
        ([2.0, -20.003], 0.003, False),
        ([2.5, -20.0], 0.5, False),
        ([float("nan"), -20.0], float("inf"), False),
        ([2.0, float("-inf")], float("inf"), False),
    ],
)
def test_outputs_are_compared_to_the_largest_reference(
    output: list[float], difference: float, agrees: bool
) -> None:
    check = compare_outputs(REFERENCE, [np.array(output)])
    assert check.max_abs_difference == pytest.approx(difference, rel=1e-6)
    assert check.tolerance == pytest.approx(20e-4)
    assert check.agrees is agrees


def test_each_output_has_a_tolerance_of_its_own() -> None:
    reference = [np.array([1000.0], np.float32), np.array([1.0], np.float32)]
    check = compare_outputs(reference, [np.array([1000.05]), np.array([1.05])])
    assert check.max_abs_difference == pytest.approx(0.05) and check.tolerance == pytest.approx(1e-4)
    assert compare_outputs(reference, [np.array([1000.05]), np.array([1.00005])]).agrees
    far = [np.array([1000.0]), np.array([2.0])]
    assert not compare_narrow_outputs(reference, far, None).agrees
    assert not compare_narrow_outputs(reference, far, [2.0, 0.01]).agrees  # 2 is accepted of the first alone
    assert compare_narrow_outputs(reference, far, [0.0, 0.5]).agrees
    assert not compare_outputs(reference, far, [2.0, 0.0]).agrees


def test_integers_and_booleans_agree_only_where_they_are_equal() -> None:
    scores, ids, mask = np.array([0.1, 0.9]), np.array([30000, 5]), np.array([True, False])
    assert compare_outputs([scores, ids, mask], [scores, ids, mask]).agrees
    assert not compare_outputs([scores, ids, mask], [scores, ids + 1, mask]).agrees
    assert not compare_outputs([scores, ids, mask], [scores, ids, ~mask]).agrees
    assert not compare_outputs([scores, ids, mask], [1 - scores, ids, mask]).agrees
    assert not compare_outputs([ids], [ids.astype(float)]).agrees


def test_integers_of_a_narrow_type_count_only_where_nothing_else_does() -> None:
    """Rounding changes which of nearly equal scores is the largest."""
    scores, ids = np.array([0.1, 0.9]), np.array([30000, 5])
    assert compare_narrow_outputs([scores, ids], [scores, ids[::-1]], [0.0]).agrees
    assert narrow_differences([scores, ids], [scores + 0.5, ids[::-1]]) == pytest.approx([0.5])
    assert not compare_narrow_outputs([ids], [ids[::-1]], [0.0]).agrees
    assert narrow_differences([ids], [ids[::-1]]) == [29995]


def test_infinite_elements_agree_in_their_places() -> None:
    reference = [np.array([-np.inf, 1.0], np.float32)]
    check = compare_outputs(reference, [np.array([-np.inf, 1.0])])
    assert check.agrees and check.tolerance == pytest.approx(1e-4)
    for output in ([-np.inf, 100.0], [np.inf, 1.0], [-1e30, 1.0]):
        assert not compare_outputs(reference, [np.array(output)]).agrees
        assert not compare_narrow_outputs(reference, [np.array(output)], None).agrees


def test_elements_that_are_not_a_number_agree_in_their_places() -> None:
    reference = [np.array([np.nan, 1.0], np.float32)]
    assert compare_outputs(reference, [np.array([np.nan, 1.0])]).agrees
    for output in ([1.0, np.nan], [1.0, 1.0], [np.nan, np.nan]):
        check = compare_outputs(reference, [np.array(output)])
        assert not check.agrees and check.max_abs_difference == np.inf
    assert check.describe() == "output 0 differs from the original's (nan instead of 1 at [1])"


def test_a_difference_is_described_with_its_place() -> None:
    reference = [np.array([1.0]), np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)]
    text = compare_outputs(reference, [np.array([1.0]), np.array([[1.0, 2.5], [3.0, 4.25]])]).describe()
    assert text == (
        "output 1 differs from the original's by up to 0.5 (2.5 instead of 2 at [0, 1]), over the tolerance "
        "of 0.0004"
    )


def test_outputs_of_another_shape_or_number_are_an_error() -> None:
    with pytest.raises(OutputFormError, match=r"shapes \[\[3\]\], and the original's \[\[2\]\]"):
        compare_outputs(REFERENCE, [np.zeros(3)])
    with pytest.raises(OutputFormError, match="shapes"):
        compare_outputs(REFERENCE, [*REFERENCE, *REFERENCE])


def test_a_masks_filling_does_not_hide_the_other_elements() -> None:
    reference = [np.array([-1e4, 1.0, 0.5, -1e4], np.float32)]
    check = compare_outputs(reference, [np.array([-1e4, 1.01, 0.5, -1e4], np.float32)])
    assert not check.agrees and check.tolerance == pytest.approx(1e-4) and check.index == (1,)
    assert not compare_outputs(reference, [np.array([-9e3, 1.0, 0.5, -1e4], np.float32)]).agrees
    assert compare_outputs(reference, [np.array([-1e4 - 0.5, 1.0, 0.5, -1e4], np.float32)]).agrees
    once = [np.array([1e4, 1.0, 0.5], np.float32)]  # a sum, whose rounding may have reached the others
    assert compare_outputs(once, [np.array([1e4, 1.01, 0.5], np.float32)]).agrees


def test_a_channel_has_a_tolerance_of_its_own() -> None:
    boxes = np.linspace(599, 600, 32, dtype=np.float32).reshape(1, 2, 16)
    boxes[0, 1] = 1.0
    wrong = boxes.copy()
    wrong[0, 1, 3] = 1.01
    check = compare_outputs([boxes], [wrong])
    assert not check.agrees and check.index == (0, 1, 3) and check.tolerance == pytest.approx(6e-4, rel=0.01)
    wrong[0, 1, 3], wrong[0, 0, 3] = 1.0, boxes[0, 0, 3] + 0.05
    assert compare_outputs([boxes], [wrong]).agrees


def test_the_tolerance_is_that_of_the_narrower_data_type() -> None:
    for dtype, agrees in (("float64", 1e-7), ("float32", 1e-5), ("float16", 0.05)):
        reference = [np.array([1.0, 2.0], dtype)]
        for factor in (1, 100):
            got = [np.array([1.0, 2.0 + factor * agrees])]
            assert compare_outputs(reference, got).agrees == (factor == 1)


def test_large_integers_differ_by_one() -> None:
    ids = np.array([2**60], np.int64)
    assert compare_outputs([ids], [ids]).agrees and not compare_outputs([ids], [ids + 1]).agrees


def test_elements_that_change_with_the_last_bit_are_not_compared_in_integers() -> None:
    ids, other = np.array([3, 5]), np.array([4, 5])
    assert compare_outputs([ids], [other], [], [np.array([True, False])]).agrees
    assert not compare_outputs([ids], [other], [], [np.array([False, True])]).agrees


def test_another_data_type_is_an_error_that_names_the_output() -> None:
    scores, ids = np.array([1.0], np.float32), np.array([1])
    require_same_form([scores, ids], [scores.astype(ml_dtypes.bfloat16), ids])
    require_same_form([scores], [scores.astype(np.float16)], narrow=True)
    with pytest.raises(OutputFormError, match="output 1 is int32, and the original's is int64"):
        require_same_form([scores, ids], [scores, ids.astype(np.int32)])
    with pytest.raises(OutputFormError, match="output 0 is int64, and the original's is float32"):
        require_same_form([scores], [ids], narrow=True)


def test_the_tolerance_itself_agrees() -> None:
    assert OutputCheck(0.5, 0.5).agrees and not OutputCheck(0.51, 0.5).agrees


def test_the_rounding_error_of_the_reference_widens_the_tolerance() -> None:
    reference, output = [np.array([1.001], np.float32)], [np.array([1.0])]
    assert not compare_outputs(reference, output).agrees
    check = compare_outputs(reference, output, [5e-4])
    assert check.agrees and check.tolerance == pytest.approx(1.5e-3)
    assert not compare_outputs(reference, output, [3e-4]).agrees
