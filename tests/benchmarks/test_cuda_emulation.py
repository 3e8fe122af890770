"""Costs of ETO's shapes beside what the emulation counts; the benchmark has more tasks."""

from __future__ import annotations

import pytest

from benchmarks.cuda_emulation.costs import TASKS, correlations, of_task


@pytest.fixture(scope="module")
def products(gpu) -> list[dict[str, float]]:
    """Costs and counts of random matrix products."""
    return of_task(gpu, TASKS["dense 64x64x64"], 10)


def test_costs_rank_matrix_products_as_the_counts_do(products):
    found = correlations(products)
    assert found["programs"] == 10
    assert found["sectors"] >= 0.8 and found["wavefronts_once"] >= 0.8 and found["wavefronts"] >= 0.6


def test_the_shared_cost_of_a_matrix_product_is_what_is_counted(products):
    # Without vector loads or padding, each thread loads each element once in a fetch.
    equal = [p["shared"] == p["wavefronts_once"] for p in products]
    assert sum(equal) >= 0.5 * len(equal), products
