"""Rows of decisions for GPUs: what the limits keep is what TVM's postprocessors accept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.operators import OPERATOR_SETTINGS, Dense, SettingsError, to_task
from foretune.compiler.replay import RejectedError, replay_or_reject
from foretune.compiler.spaces.measurable_space import measurable_space
from foretune.compiler.structure.limits import shared_bytes, within_limits
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.parallelism import block_threads
from foretune.compiler.structure.read_spaces import gpu_limits
from foretune.compiler.structure.row_space import RowSpace
from foretune.compiler.structure.sources import source_of
from foretune.compiler.tvm_compat import design_spaces, make_tune_context, parse_target
from foretune.dataset.features.reading import task_reading

TARGETS = {"sm_80": "nvidia/nvidia-a100", "sm_90": "nvidia/nvidia-h100"}
TENSOR_CORE = Dense(rows=128, in_features=256, out_features=512, dtype="float16")


def opened(task, target=TARGETS["sm_80"]):
    """Context of a task, its rows, and the limits of the target."""
    parsed = parse_target(target)
    context = make_tune_context(task.mod, parsed, seed=1, space=measurable_space(parsed, None))
    limits = gpu_limits(parsed)
    designs = design_spaces(context, task.name)
    return context, RowSpace.read(designs, task_reading(context.mod).structure, limits), limits


def accepts(context, trace):
    try:
        replay_or_reject(context, trace)
    except RejectedError:
        return False
    return True


def disagreements(task, target, count):
    """Rows of each verdict of the limits, and those on which TVM disagrees."""
    context, rows, limits = opened(task, target)
    assert not rows.unread
    rng, found = np.random.default_rng(0), Counter()
    for space in rows.spaces:
        drawn = space.unique(space.sample(4000, rng))
        kept = within_limits(Nest.of(space.sketch, space.values(drawn)), limits)
        for verdict, of_verdict in (("kept", drawn[kept]), ("dropped", drawn[~kept])):
            for trace in space.traces(of_verdict[: -(-count // len(rows.spaces))]):
                found[verdict] += 1
                found[f"{verdict} wrongly"] += accepts(context, trace) != (verdict == "kept")
    return found


def check_all_operators(target, dtype, count):
    every = Counter()
    for name, cls in OPERATOR_SETTINGS.items():
        try:
            task = to_task(replace(cls.examples()[0], dtype=dtype))
        except SettingsError:
            continue
        found = disagreements(task, TARGETS[target], count)
        print(name, dict(found))
        assert found["kept"] > 0, name
        assert found["kept wrongly"] <= 0.1 * found["kept"], (name, found)
        every += found
    assert every["kept wrongly"] <= 0.02 * every["kept"], every
    # The limits are stricter than TVM by design: virtual threads, and vectors that are copied one by one.
    assert every["dropped wrongly"] <= 0.3 * every["dropped"], every


BOTH = pytest.mark.parametrize(("target", "dtype"), [("sm_80", "float32"), ("sm_90", "float16")])


@pytest.mark.slow
@BOTH
def test_limits_agree_with_the_postprocessors_on_some_rows_of_every_operator(target, dtype):
    check_all_operators(target, dtype, count=4)


@pytest.mark.long
@BOTH
def test_limits_agree_with_the_postprocessors_on_every_operator(target, dtype):
    check_all_operators(target, dtype, count=12)


def test_drawn_changed_and_crossed_rows_are_legal_and_differ_as_they_say():
    context, rows, _ = opened(to_task(Dense(rows=64, in_features=96, out_features=80, epilogue="bias_relu")))
    rng = np.random.default_rng(3)
    drawn = [rows.draw(rng) for _ in range(12)]
    changed = [rows.changed(trace, rng) for trace in drawn]
    assert all(accepts(context, trace) for trace in [*drawn, *changed])
    assert all(rows.allows(trace) for trace in [*drawn, *changed])
    for before, after in zip(drawn, changed, strict=True):
        (space, row), (other, moved) = rows._row(before), rows._row(after)
        assert space is other and (row != moved).sum() == 1
    pairs = [(a, b) for a in drawn for b in drawn if a != b and rows._row(a)[0] is rows._row(b)[0]]
    children = [(a, b, child) for a, b in pairs if (child := rows.crossed(a, b, rng)) is not None]
    assert children
    for left, right, child in children[:6]:
        mother, father, row = (rows._row(trace)[1] for trace in (left, right, child))
        assert ((row == mother) | (row == father)).all()
        assert accepts(context, child)


def test_sketches_for_tensor_cores_are_products_of_whole_tiles():
    _, rows, _ = opened(to_task(TENSOR_CORE))
    # TVM draws the decisions of the sketch for MMA, whose tiles are sampled by another instruction.
    assert ["mma_sync" in str(trace) for trace in rows.unread] == [True]
    by_instruction = {"_trans" in space.sketch.instructions: space for space in rows.spaces}
    space = by_instruction[True]
    assert space.sketch.block.extents == (128, 512, 256)
    assert [read.shape for read in space.sketch.block.reads] == [(128, 256), (512, 256)]
    # Tiles of 16: rows 2 4 1 1 1, columns 2 4 2 1 2, sum 4 1 4; a block has 16 x 64 outputs in 2 warps.
    nest = Nest.of(space.sketch, np.array([[2, 4, 1, 1, 1, 2, 4, 2, 1, 2, 4, 1, 4, 0, 0, 0, 0]]))
    assert block_threads(nest)[0] == 2 * 32
    # Rows of 64 halves are padded to 72, which keeps them on other banks.
    assert shared_bytes(nest)[0] == 2 * 72 * (16 + 64)


def test_a_source_follows_inlined_copies_and_their_steps():
    structure = task_reading(to_task(OPERATOR_SETTINGS["conv1d_transpose"].examples()[0]).mod).structure
    (block,) = [block for block in structure.blocks if block.name == "compute"]
    data, kernel = block.reads
    # kernel[o, i, w] is weight[i, o, 3 - w] of shape (3, 4, 4).
    found = source_of(kernel, structure, {"kernel"})
    assert found.steps == (((4, 4),), ((16, 3),), ((-1, 4),)) and found.offset == 3
    assert source_of(kernel, structure, set()).steps == (((12, 4),), ((4, 3),), ((1, 4),))
    # Zeros around the data make each element conditional.
    assert source_of(data, structure, {"data_pad", "data_dilate"}) is None


def test_a_sketch_that_cannot_be_read_is_left_to_tvm(monkeypatch):
    task = to_task(Dense(rows=64, in_features=96, out_features=80))

    def unreadable(*given):
        raise ValueError("no")

    monkeypatch.setattr("foretune.compiler.structure.row_space.read_sketch", unreadable)
    _, rows, _ = opened(task)
    assert not rows.spaces and rows.unread
    drawn = rows.draw(np.random.default_rng(0))
    assert not drawn.decisions
