"""Code size and registers of CUDA programs by their rows of decisions, by hand and by TVM's text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.operators import Conv2d, Dense, to_task
from foretune.compiler.replay import replay
from foretune.compiler.spaces.measurable_space import measurable_space
from foretune.compiler.structure.limits import (
    CODE_SIZE,
    MAX_CODE,
    REGISTERS,
    least_registers,
    unrolled_statements,
    within_limits,
)
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.read_spaces import gpu_limits
from foretune.compiler.structure.row_space import RowSpace
from foretune.compiler.tvm_compat import design_spaces, make_tune_context, parse_target
from foretune.dataset.features.reading import task_reading
from scipy.stats import spearmanr

A100 = parse_target("nvidia/nvidia-a100")
LIMITS = gpu_limits(A100, MAX_CODE)
DENSE = Dense(rows=64, in_features=64, out_features=128)


def opened(settings):
    task = to_task(settings)
    context = make_tune_context(task.mod, A100, seed=1, space=measurable_space(A100, None))
    return context, RowSpace.read(
        design_spaces(context, task.name), task_reading(context.mod).structure, LIMITS
    )


@pytest.fixture(scope="module")
def dense():
    return opened(DENSE)


def row(unroll, *, rows=(1, 2, 4, 2, 4), columns=(2, 1, 16, 4, 1)):
    """Tiles over block, virtual thread, thread and two inner loops; the sum in 4, 2, 8; an unroll step."""
    return [*rows, *columns, 4, 2, 8, 0, 0, unroll]


# 64 threads of 2 virtual threads copy 64 x 16 elements of both inputs: 16 copies of each.
# A thread has 2 x 2 x 4 x 4 = 64 outputs.
@pytest.mark.parametrize(
    ("unroll", "statements"),
    [
        (0, 2 + (1 + 1) + 2),  # step 0
        (1, 2 * 4 + (16 + 16) + 2),  # step 16: the 4 innermost rows; the 64 zeros are too many
        (3, 2 * 4 * 8 + (16 + 16) + 64),  # step 64: and the inner 8 of the sum, and the zeros
        (6, 2 * 4 * 8 * 8 + (16 + 16) + 64),  # step 512: and the other 2 rows and 4 columns
        (7, 2 * 4 * 8 * 8 * 2 + (16 + 16) + 64),  # step 1024: and the middle 2 of the sum
    ],
)
def test_statements_are_those_of_unrolled_loops(dense, unroll, statements):
    for space in dense[1].spaces:
        nest = Nest.of(space.sketch, np.array([row(unroll)]))
        assert unrolled_statements(nest)[0] == statements


def test_a_thread_holds_its_sums_and_an_operand_of_each_input(dense):
    values = np.array([row(0), row(0, rows=(1, 1, 1, 8, 8), columns=(2, 1, 16, 4, 1))])
    for space in dense[1].spaces:
        assert least_registers(Nest.of(space.sketch, values)).tolist() == [64 + 2, 256 + 2]
    _, halves = opened(replace(DENSE, dtype="float16"))
    plain = [space for space in halves.spaces if not space.sketch.in_warps]
    for space in plain:
        assert least_registers(Nest.of(space.sketch, values)).tolist() == [32 + 2, 128 + 2]


def test_tensor_instructions_are_statements_and_share_their_sums_among_a_warp():
    _, rows = opened(Dense(rows=128, in_features=256, out_features=512, dtype="float16"))
    space = next(space for space in rows.spaces if "_trans" in space.sketch.instructions)
    # A warp has 1 x 2 tiles of 16 x 16 halves: 512 outputs, 16 of each thread in 8 registers.
    nest = Nest.of(space.sketch, np.array([[2, 4, 1, 1, 1, 2, 4, 2, 1, 2, 4, 1, 4, 0, 0, 0, 0]]))
    assert least_registers(nest)[0] == 8 + 2
    assert unrolled_statements(nest)[0] == 1 + (1 + 1) + 1


def test_rows_outside_the_limits_are_counted_by_cause(dense):
    values = np.array(
        [
            row(6),
            row(7),  # 1,120 statements
            row(0, rows=(1, 1, 1, 8, 8), columns=(2, 1, 32, 2, 1)),  # 128 sums
            row(0, rows=(1, 1, 1, 8, 8), columns=(1, 1, 32, 4, 1)),  # 256 sums
            row(0, rows=(1, 1, 8, 8, 1), columns=(1, 1, 128, 1, 1)),  # 1,024 threads of 8 sums
        ]
    )
    for space in dense[1].spaces:
        dropped: Counter[str] = Counter()
        kept = within_limits(Nest.of(space.sketch, values), LIMITS, dropped)
        assert kept.tolist() == [True, False, True, False, True]
        assert dict(+dropped) == {CODE_SIZE: 1, REGISTERS: 1}
        free = replace(LIMITS, code=None)
        assert within_limits(Nest.of(space.sketch, values), free).tolist() == [True, True, True, False, True]
        # A quarter of the registers leaves 16 for each of 1,024 threads, and 255 for each of 64.
        few = replace(LIMITS, registers=8192)
        assert within_limits(Nest.of(space.sketch, values), few).tolist() == [True, False, True, False, False]


def test_rows_that_are_drawn_count_what_they_leave_out(dense):
    _, rows = opened(DENSE)
    assert rows.draw(np.random.default_rng(0)) is not None
    assert rows.dropped["threads"] > 0 and rows.dropped[REGISTERS] > 0


def text_of(mod) -> str:
    (module,) = (module for module in compile_module(mod, A100).mod.imports if module.kind == "cuda")
    text = module.inspect_source()
    return text[text.rindex("__global__") :]


def test_the_estimate_follows_the_text_of_lowered_programs():
    rng, estimates, statements = np.random.default_rng(0), [], []
    for settings in (
        DENSE,
        Conv2d(batch=1, in_channels=32, height=14, width=14, out_channels=64, kernel=3, padding=1),
    ):
        context, rows = opened(settings)
        for _ in range(10):
            trace = rows.draw(rng)
            space, found = rows._row(trace)
            estimates.append(unrolled_statements(Nest.of(space.sketch, space.values(found)))[0])
            statements.append(len(re.findall(r"[^=!<>]=[^=]", text_of(replay(context, trace).sch.mod))))
    assert spearmanr(estimates, statements).statistic > 0.8
