"""Numbers, counts and lists as text."""

from __future__ import annotations

import shlex

import pytest
from foretune.wording import counted, listed, part_of, shell_command, significant, verb, visible
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


@pytest.mark.parametrize(
    ("number", "of", "text"),
    [(0, 3, "none of 3 tasks"), (0, 1, "no task"), (0, 0, "no tasks"), (2, 1294, "2 of 1,294 tasks")],
)
def test_a_part_that_is_empty_has_no_zero(number: int, of: int, text: str) -> None:
    assert part_of(number, of, "task") == text


def test_control_characters_are_left_out_and_letters_stay() -> None:
    assert visible("a\x1b[31mb\x07\x9b\u202e\nä\t文") == "a[31mb\nä\t文"


def test_a_command_with_special_characters_is_read_back_as_it_was() -> None:
    words = ["foretune", "train", "dataset=data/it's my (1) ä"]
    assert shlex.split(shell_command(*words)) == words
    assert shell_command("foretune", "train", "dataset=data/mine") == "foretune train dataset=data/mine"


def test_a_list_ends_with_and() -> None:
    assert [listed(list(words)) for words in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
