"""Register tiles by hand: what the registers hold, and what one step costs."""

from __future__ import annotations

import pytest
from foretune.compiler.instruction_sets import INSTRUCTION


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("avx2_fma", [14, 6, 4, 2]),
        ("avx512_vnni_u8s8", [30, 14, 9, 6]),
        # Of 16 registers, two hold each vector of weights, and four hold data, a product and a mask.
        ("avx2_madd_u8s8", [10, 4, 2, 1]),
        ("avx512_madd_u8s8", [26, 12, 7, 5]),
    ],
)
def test_sums_and_operands_fill_the_registers(name: str, rows: list[int]) -> None:
    instruction = INSTRUCTION[name]
    assert [instruction.most_rows(vectors) for vectors in (1, 2, 3, 4)] == rows


def test_widening_costs_more_where_fewer_products_share_it() -> None:
    """4 x 2: 16 products and 16 sums, 8 instructions for data and 6 for weights, at half of their number."""
    madd, vnni = INSTRUCTION["avx2_madd_u8s8"], INSTRUCTION["avx_vnni_u8s8"]
    assert (madd.work(4, 2), vnni.work(4, 2)) == ((16 + 16 + 8 + 6) / 2, 8)
    assert madd.work(1, 1) == (2 + 2 + 2 + 3) / 2
