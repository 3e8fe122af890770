"""Estimated programs of a reuse search: counted by hand for Example 3, and their order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.structure.limits import GpuLimits
from foretune.inference.eto.graph.search_cost import (
    EstimateRatios,
    SearchCost,
    ShapeSizes,
    ShapeTable,
    estimate_ratios,
    programs_measured,
    sampled_sizes,
)
from foretune.inference.eto.search.program_features import FeatureRanges, Interval
from foretune.inference.eto.search.search import ReuseTarget, shapes_of
from foretune.inference.eto.search.shapes import GpuShapes
from foretune.inference.reuse.conditions import operator_of
from support.reuse import CHILD, CPU, PARENT, context_of, conv

GPU = ReuseTarget(GpuLimits())
OPERATORS = {name: operator_of(task) for name, task in (("parent", PARENT), ("child", CHILD))}


def test_programs_of_example_3_for_56_blocks():
    shapes = GpuShapes(OPERATORS["child"].block, GpuLimits())
    ranges = FeatureRanges.of(OPERATORS["parent"], OPERATORS["child"])
    sizes = ShapeSizes(56, 56 * 224, 56 * 11264 * 4)
    # Three numbers of threads; LShape [4, 1, 1] beside the default [2, 1, 1]; 9 further annotations.
    table = ShapeTable.of(shapes, [(56, (1, 32, 2, 28)), (128, (1, 28, 1, 28))])
    # A number of blocks outside of [28, 112] is no iteration.
    assert programs_measured(table, ranges, sizes, annotations=9) == 3 + 1 + 9


@pytest.mark.parametrize("target", [GPU, ReuseTarget(None)])
def test_the_estimate_counts_the_shapes_that_the_search_tries(target):
    child = OPERATORS["child"]
    shapes = shapes_of(child.block, "SSRSRS" if target.limits is None else "SSSRRSRS", target)
    ranges = FeatureRanges.of(OPERATORS["parent"], child)
    by_blocks = list(shapes.block_shapes(Interval(1, 2**20)))
    table = ShapeTable.of(shapes, by_blocks)
    for sizes in sampled_sizes(shapes, 3, seed=1):
        blocks, threads, shared = (
            ranges.blocks.scaled(sizes.blocks),
            ranges.threads.scaled(sizes.threads),
            ranges.shared.scaled(sizes.shared),
        )
        expected = 0
        for count, shape in by_blocks:
            units = shapes.unit_counts(shape, threads.scaled(1 / count))
            if blocks.contains(np.array([count]))[0] and units:
                default = shapes.load_shape(shape, sizes.shared / sizes.blocks)
                others = [loads for loads in shapes.load_shapes() if loads != default]
                bytes_ = np.array([count * shapes.step_bytes(shape, loads) for loads in others])
                expected += len(units) + shared.contains(bytes_).sum() + 7
        assert programs_measured(table, ranges, sizes, annotations=7) == expected > 0


def test_samples_are_legal_and_repeatable():
    shapes = GpuShapes(OPERATORS["parent"].block, GpuLimits())
    found = list(sampled_sizes(shapes, 12, seed=3))
    assert found == list(sampled_sizes(shapes, 12, seed=3))
    assert len(found) == 12
    for sizes in found:
        assert 32 <= sizes.threads / sizes.blocks <= 1024
        assert sizes.shared / sizes.blocks <= GpuLimits.shared_bytes


def test_a_larger_difference_costs_more():
    cost = SearchCost(GPU, samples=8)
    near, far = (operator_of(conv(in_channels=channels)) for channels in (256, 32))
    assert 1 <= cost(OPERATORS["parent"], near) < cost(OPERATORS["parent"], far)


@pytest.mark.parametrize("target", [GPU, ReuseTarget(None)])
def test_the_sketch_of_the_highest_cost_counts_until_one_is_known(target):
    cost = SearchCost(target, samples=4)
    parent = operator_of(PARENT)
    child = operator_of(CHILD, context_of(CHILD, CPU))
    each = [cost(parent, child, sketch) for sketch in child.sketches]
    assert cost(parent, child) == max(each)


def test_an_operator_without_its_loops_has_no_estimate():
    with pytest.raises(ValueError, match="operator_of"):
        SearchCost(GPU)(replace(OPERATORS["parent"], block=None), OPERATORS["child"])


def test_ratios_of_estimates_to_measured_programs():
    assert estimate_ratios([(30.0, 20), (20.0, 40), (5.0, 0)]) == EstimateRatios(1.0, 0.5, 1.5, 2)
    with pytest.raises(ValueError, match="no pair"):
        estimate_ratios([])
