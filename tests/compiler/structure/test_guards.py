"""Tests of guards: their detection, their effect on unrolled code, and their use in a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from foretune.compiler.operators import Conv2d, OperatorSettings, Pool2d, TransposedConv2d, to_task
from foretune.compiler.replay import replay
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.sketch import AT_ROOT, INLINED, Decision, Sketch
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.structure.structure import Guard
from foretune.compiler.task import Task, count_flops
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.features.draft_vector import DRAFT_DIM, DraftFeaturizer
from foretune.dataset.features.task import task_features
from foretune.inference.strategies.draft.drafts import DraftRequest
from foretune.inference.strategies.draft.model import LIVE_FRACTION_EXPONENT, DraftModel
from foretune.inference.surrogate.embedding import LOCATION_OFFSET, embeddings_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drafts import CPU, StandInRater, drafter_of, matmul, matmul_trace
from support.lowering import unrolled
from tvm import te, topi
from tvm.tirx import EQ, FloorMod

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
TRANSPOSED = {"batch": 1, "height": 4, "width": 4, "in_channels": 8, "out_channels": 16}
ROWS_AND_COLUMNS = [Guard(((1, 1), (4, 1)), 2), Guard(((2, 1), (5, 1)), 2)]


def guarded() -> Task:
    """Transposed convolution of padded data, 8 x 8 x 16 outputs, whose own block skips the zeros."""
    data = te.placeholder((1, 6, 6, 32), name="data")
    weight = te.placeholder((4, 4, 32, 16), name="weight")
    padded = te.compute((1, 6, 6, 32), lambda *at: data(*at) * 2.0, name="padded")
    rows, columns, channels = (te.reduce_axis((0, extent)) for extent in (4, 4, 32))

    def product(n, h, w, c):
        hits = tvm.tirx.all((h + rows) % 2 == 0, (w + columns) % 2 == 0)
        element = padded[n, (h + rows) // 2, (w + columns) // 2, channels]
        element = tvm.tirx.if_then_else(hits, element, 0.0)
        return te.sum(element * weight[rows, columns, channels, c], axis=[rows, columns, channels])

    output = te.compute((1, 8, 8, 16), product, name="transposed")
    module = tvm.IRModule({"main": te.create_prim_func([data, weight, output])})
    return Task("guarded", module, 1, "operator", "conv2d_transpose", {}, count_flops(module))


def guards_of(operator: OperatorSettings) -> list[Guard]:
    return list(read_structure(to_task(operator).mod).anchor.guards)


def test_a_guard_is_a_condition_on_a_rest_without_which_a_block_adds_zero():
    assert list(read_structure(guarded().mod).anchor.guards) == ROWS_AND_COLUMNS


def test_a_block_has_the_guards_of_what_is_inlined_into_it():
    kernel = {"kernel": 4, "stride": 2, "padding": 1, **TRANSPOSED}
    last = guards_of(TransposedConv2d(layout="NHWC", **kernel))
    assert last == [replace(guard, inlined_blocks=("data_pad", "data_dilate")) for guard in ROWS_AND_COLUMNS]
    first = guards_of(TransposedConv2d(layout="NCHW", **kernel))
    assert [(guard.axes, guard.modulus) for guard in first] == [(((2, 1), (5, 1)), 2), (((3, 1), (6, 1)), 2)]


def test_each_axis_is_guarded_by_its_own_stride():
    (rows,) = guards_of(TransposedConv2d(layout="NHWC", kernel=3, stride=(3, 1), **TRANSPOSED))
    assert (rows.axes, rows.modulus) == (((1, 1), (4, 1)), 3)


@pytest.mark.parametrize(
    "operator",
    [
        Conv2d(batch=1, height=9, width=9, in_channels=8, out_channels=8, kernel=3, stride=2, padding=1),
        Pool2d(batch=1, channels=8, height=9, width=9, kernel=3, stride=2, padding=1),
        TransposedConv2d(kernel=2, **TRANSPOSED),
    ],
    ids=["strided", "pool", "stride of one"],
)
def test_borders_are_no_guards(operator):
    assert guards_of(operator) == []


@pytest.mark.parametrize(("reducer", "guarded_too"), [(te.sum, True), (te.max, False)], ids=["sum", "max"])
def test_zeros_count_for_what_is_no_sum(reducer, guarded_too):
    data = te.placeholder((1, 8, 8, 32), name="data")
    dilated = topi.nn.dilate(data, [1, 2, 2, 1], name="dilated")
    axes = [te.reduce_axis((0, 3)) for _ in range(2)]

    def window(n, h, w, c):
        return reducer(dilated[n, h + axes[0], w + axes[1], c], axis=axes)

    output = te.compute((1, 12, 12, 32), window, name="window")
    module = tvm.IRModule({"main": te.create_prim_func([data, output])})
    structure = read_structure(module)
    assert len(structure.anchor.guards) == 2
    spaces = read_spaces(make_tune_context(module, TARGET, seed=0), structure, "window")
    assert {bool(space.sketch.guards) for space in spaces} == {guarded_too}


def with_guards(*guards: Guard, **decided) -> Nest:
    """Loop nest of `matmul_trace(**decided)` whose block has the given guards."""
    sketch, values = read_sketch(matmul_trace(**decided), matmul())
    return Nest.of(replace(sketch, guards=tuple((guard, ()) for guard in guards)), np.array([values]))


# The loops are i0 j0 i1 j1 k0 i2 j2 k1 i3 j3 with extents 2 1 1 2 8 2 1 4 2 8; the last one is vectorised.
# There are 16 stores inside i2, 128 inside k0 and 512 in all; the unroll step is 0, 16, 64 or 512.
ROW_AND_INNER = Guard(((0, 1), (2, 1)), 2)


def left(*guards: Guard, **decided) -> float:
    (share,) = with_guards(*guards, **decided).live_fraction().tolist()
    return share


def test_unrolled_code_knows_a_guard_that_loops_outside_do_not_change():
    assert left() == 1
    assert left(ROW_AND_INNER, unroll=2) == 0.5
    assert left(ROW_AND_INNER, unroll=1) == 0.5  # 4 rows and 4 steps of the reduction are unrolled
    # With a single step of the reduction, the loop around decides whether an iteration counts.
    assert left(ROW_AND_INNER, unroll=1, k=[32, 1]) == 1
    # Everything is known again if no loop is left outside.
    assert left(ROW_AND_INNER, unroll=3, k=[32, 1]) == 0.5
    assert left(ROW_AND_INNER, unroll=0) == 1


def test_loops_outside_may_go_in_multiples_of_the_modulus():
    assert left(Guard(((0, 1),), 4), unroll=2) == 0.25  # tiles of 4 rows
    assert left(Guard(((0, 1),), 3), unroll=2) == 1
    assert left(Guard(((0, 3),), 3), unroll=2) == pytest.approx(1 / 3)
    assert left(Guard(((0, 2),), 8), unroll=2) == 0.125


def test_guards_multiply():
    assert left(ROW_AND_INNER, Guard(((0, 1),), 4), unroll=2) == 0.125
    assert left(ROW_AND_INNER, Guard(((0, 1),), 3), unroll=2) == 0.5


def test_a_vector_has_lanes_that_count_and_others():
    columns = Guard(((1, 1), (2, 1)), 2)
    assert left(columns, unroll=3) == 1
    assert left(columns, unroll=3, j=[1, 2, 8, 1]) == 0.5  # the innermost rows are not contiguous: no vector
    assert left(ROW_AND_INNER, unroll=2, j=[1, 1, 1, 16]) == 1  # 2 whole rows are a vector of 32


def test_what_comes_from_an_input_needs_it_inlined():
    nest = with_guards(unroll=2)
    location = Decision(100, "location", nest.sketch.width, block="dilated")
    sketch = replace(
        nest.sketch,
        decisions=(*nest.sketch.decisions, location),
        guards=((replace(ROW_AND_INNER, inlined_blocks=("dilated",)), (len(nest.sketch.decisions),)),),
    )
    values = np.array([[*nest.values[0], at] for at in (AT_ROOT, 3, INLINED)])
    assert Nest.of(sketch, values).live_fraction().tolist() == [1, 1, 0.5]


@settings(deadline=None, max_examples=60)
@given(
    tile=st.sampled_from([1, 2, 4, 8]),
    inner=st.sampled_from([1, 2, 4, 8, 16, 32]),
    modulus=st.integers(2, 6),
    coefficients=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_what_is_known_is_the_same_in_each_tile(tile, inner, modulus, coefficients):
    """Compare with an enumeration of the remainders in each tile."""
    of_row, of_inner = coefficients
    guard = Guard(((0, of_row), (2, of_inner)), modulus)
    nest = with_guards(guard, i=[8 // tile, 1, 1, tile], j=[8, 1, 1, 2], k=[32 // inner, inner], unroll=1)
    if tile * inner > 16:
        inner = 1  # the reduction is not unrolled
    rest = (of_row * np.arange(8)[:, None] + of_inner * np.arange(32)) % modulus
    tiles = rest.reshape(8 // tile, tile, 32 // inner, inner).transpose(0, 2, 1, 3).reshape(-1, tile * inner)
    assert nest.live_fraction()[0] == (np.float32(1 / modulus) if (tiles == tiles[0]).all() else 1)


def guards_left_by_tvm(mod: tvm.IRModule) -> int:
    """Number of tests of a remainder that are left once TVM has unrolled and simplified a program."""
    lowered = tvm.tirx.transform.StmtSimplify()(unrolled(mod))
    found = []

    def count(condition: EQ) -> tvm_ffi.WalkResult:
        if isinstance(condition.a, FloorMod):
            found.append(condition)
        return tvm_ffi.WalkResult.ADVANCE

    tvm_ffi.structural_walk(lowered["main"].body, [(EQ, count)], order="pre")
    return len(found)


def test_tvm_settles_the_guards_that_are_said_to_be_known():
    task = guarded()
    context, structure = make_tune_context(task.mod, TARGET, seed=0), read_structure(task.mod)
    seen = {True: 0, False: 0}
    for space in read_spaces(context, structure, task.name):
        drawn = space.sample(300, np.random.default_rng(0))
        shares = Nest.of(space.sketch, space.values(drawn)).live_fraction()
        for share in (0.25, 1.0):
            for trace in space.traces(drawn[shares == share][:8]):
                candidate = replay(context, trace)
                if candidate is not None:
                    seen[share < 1] += 1
                    if share < 1:
                        assert guards_left_by_tvm(candidate.sch.mod) == 0, candidate.sch.trace
    assert min(seen.values()) >= 8
    # The other programs keep guards.
    assert guards_left_by_tvm(task.mod) > 0


class Disliking(DraftModel):
    """Draft model that scores programs higher the more iterations their guards leave."""

    def __init__(self):
        self.hardware = CPU

    def rater(self, sketch, structure, task):
        return StandInRater(lambda values: Nest.of(sketch, values).live_fraction())


@pytest.mark.parametrize(("share", "least"), [(0.0, 0), (0.4, 2), (0.8, 3)])
def test_some_programs_leave_out_zeros_whatever_a_model_likes(share, least):
    drafter = drafter_of(guarded(), TARGET, Disliking())
    drafts = drafter.draft(
        DraftRequest(population=60, generations=3, keep=12, random_share=0.0, compute_location_share=share)
    )
    shares = {
        trace: left_over
        for space in drafter.spaces
        for draft in drafts
        if (values := space.sketch.values_in(trace := draft.trace)) is not None
        for left_over in Nest.of(space.sketch, np.array([values])).live_fraction().tolist()
    }
    assert len(shares) == 12
    assert [shares[draft.trace] < 1 for draft in drafts[len(drafts) - least :]] == [True] * least
    if not share:
        assert set(shares.values()) == {1.0}


class Even:
    """Predictor that gives every program the same score."""

    def __init__(self, wrapped):
        self._wrapped = wrapped
        self.target = wrapped.target

    def predict_all(self, batch):
        found = self._wrapped.predict_all(batch)
        return replace(found, score=np.full_like(found.score, 0.5), std=None)


def test_a_score_tells_of_what_is_left_out(monkeypatch):
    task = guarded()
    structure = read_structure(task.mod)
    space: SketchSpace = read_spaces(make_tune_context(task.mod, TARGET, seed=0), structure, task.name)[0]
    values = space.values(space.sample(300, np.random.default_rng(0)))
    rater = DraftModel.load("cpu-draft", CPU).rater(space.sketch, structure, task_features(task.mod))
    monkeypatch.setattr(rater, "_predictor", Even(rater._predictor))
    scores, embeddings = rater.with_embeddings(values)
    left_over = Nest.of(space.sketch, values).live_fraction()
    assert set(left_over.tolist()) == {0.25, 0.5, 1.0}
    np.testing.assert_allclose(scores, 0.5 / left_over**LIVE_FRACTION_EXPONENT, rtol=1e-6)
    np.testing.assert_array_equal(rater(values), scores)
    np.testing.assert_allclose(embeddings[:, -1], -LOCATION_OFFSET * np.log2(left_over))


def test_embeddings_of_programs_without_guards_have_a_zero_there():
    sketch, values = read_sketch(matmul_trace(), matmul())
    assert isinstance(sketch, Sketch)
    row = np.array([values])
    embeddings = embeddings_of(DraftFeaturizer(sketch, matmul(), CPU)(row), Nest.of(sketch, row))
    assert embeddings.shape[1] > DRAFT_DIM
    assert embeddings[0, -1] == 0
