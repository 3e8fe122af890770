"""Ratings of kernels for dynamic shapes: kernels that take part, remainders, summaries, ratings again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.prediction import Machine, ProductSize, cycles
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST
from foretune.inference.search.cost_model import PretrainedCostModel

from benchmarks.dynamic_ratings import (
    CLOSED_FORM,
    EARLIER,
    MODEL,
    ModelRater,
    candidates,
    chosen,
    kernel_name,
    rated_again,
    summaries,
)
from tests.support.cpus import cpu

AVX2 = Machine(lanes=8, registers=16, cores=1)
TILE = KernelParameters(8, 6, 2, COLUMNS_FIRST)


def test_tiles_divide_whole_sizes_and_leave_remainders_at_others() -> None:
    whole, others = ({one.rows for one in candidates(ProductSize(rows, 64, 8), AVX2)} for rows in (12, 7))
    assert whole == {1, 2, 3, 4, 6}
    assert others == {1, 2, 3, 4, 5, 6, 7}


class HalfSpeed:
    """A model that gives every program half of the best speed, and keeps their tasks."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def predict(self, context: Any, candidates: Sequence[Any]) -> Any:
        self.rows.append(int(context.mod["main"].params[0].shape[0]))
        return np.full(len(candidates), 0.5)


@pytest.mark.parametrize(("rows", "whole"), [(12, 12), (13, 18), (17, 18)])
def test_a_remainder_is_corrected_by_the_closed_form(rows: int, whole: int) -> None:
    model = HalfSpeed()
    rater = ModelRater(cast(PretrainedCostModel, model), cpu("x86-64-v3"), AVX2)
    sizes = [ProductSize(count, 64, 32) for count in (rows, whole)]
    share = cycles(TILE, sizes[0], AVX2) / cycles(TILE, sizes[1], AVX2)
    assert rater(TILE, sizes[0]) == pytest.approx(whole / 0.5 * share)
    assert model.rows == [whole]


def test_the_first_kernels_of_both_raters_are_measured() -> None:
    kernels = [KernelParameters(8, rows, 1, COLUMNS_FIRST) for rows in range(1, 9)]
    ratings = {
        one: {CLOSED_FORM: float(one.rows), MODEL: float(-one.rows)} for one in kernels
    }  # the model has the opposite order
    assert [one.rows for one in chosen(ratings, 4)] == [1, 8, 2, 5]


def row(latency_s: float | None, closed_form: float, model: float | None) -> dict[str, Any]:
    return {"kernel": kernel_name(TILE), CLOSED_FORM: closed_form, MODEL: model, "latency_s": latency_s}


def test_summaries_of_both_kinds_of_sizes() -> None:
    """The closed form has the right order at 12 rows, and the model the opposite one."""
    whole = [row(1.0, 1, 3), row(2.0, 2, 2), row(4.0, 3, 1), row(None, 0, 0)]
    found = summaries({"12x8x64": whole, "7x8x64": [row(2.0, 1, 2), row(1.0, 2, 1), row(3.0, 3, 3)]})
    assert found["summary"][CLOSED_FORM] == {
        "sizes": 1,
        "spearman": pytest.approx(1.0),
        "speed_of_first": pytest.approx(1.0),
        "least_speed_of_first": 1.0,
    }
    assert found["summary"][MODEL]["spearman"] == pytest.approx(-1.0)
    assert found["summary"][MODEL]["speed_of_first"] == pytest.approx(0.25)
    assert found["remainders"][CLOSED_FORM]["spearman"] == pytest.approx(0.5)
    assert found["remainders"][CLOSED_FORM]["least_speed_of_first"] == 0.5
    assert "remainders" not in summaries({"12x8x64": whole})


def test_an_earlier_result_is_rated_again() -> None:
    (found,) = rated_again({"12x32x64": [row(1.0, 5.0, 2.0)]}, AVX2)["12x32x64"]
    assert found[CLOSED_FORM] == cycles(TILE, ProductSize(12, 64, 32), AVX2)
    assert (found[EARLIER], found[MODEL], found["latency_s"]) == (5.0, 2.0, 1.0)
