"""Numbers as pages write them."""

from __future__ import annotations

import pytest
from foretune.page import significant
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
