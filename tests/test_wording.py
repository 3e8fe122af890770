"""Numbers, counts and lists as text."""

from __future__ import annotations

import pytest
from foretune.wording import counted, listed, part_of, significant, verb
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1836.2, "1,836"),
        (82.14, "82.1"),
        (3.5, "3.50"),
        (0.012345, "0.0123"),
        (0, "0"),
        (1e-12, "0.000000000"),
    ],
)
def test_significant(number: float, text: str) -> None:
    assert significant(number) == text


@given(st.floats(1e-6, 1e6))
def test_significant_keeps_three_digits(number: float) -> None:
    assert float(significant(number).replace(",", "")) == pytest.approx(number, rel=0.00501)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "no families"), (1, "1 family"), (2, "2 families"), (1294, "1,294 families")]
)
def test_a_count_has_the_form_of_its_noun(number: int, text: str) -> None:
    assert counted(number, "family", "families") == text


def test_a_count_that_is_no_whole_number_is_rounded() -> None:
    assert [counted(number, "run") for number in (0.4, 0.6, 1.4, 833.3)] == [
        "no runs",
        "1 run",
        "1 run",
        "833 runs",
    ]


def test_a_part_takes_the_noun_of_the_whole_and_the_verb_of_the_part() -> None:
    told = [f"{part_of(n, of, 'task')} {verb(n, 'has', 'have')}" for n, of in ((1, 3), (2, 3))]
    assert told == ["1 of 3 tasks has", "2 of 3 tasks have"]


def test_a_list_ends_with_and() -> None:
    assert [listed(list(words)) for words in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
