"""Random programs for CUDA compute the right result, of every operator type."""

from __future__ import annotations

import pytest
from support.cuda_emulation import NotBuiltError
from support.cuda_programs import OPERATORS, TARGET, Prepared, random_programs

PROGRAMS = 2
NO_PROGRAM = {"batch_matmul"}
"""Examples with extents so small that a GPU has no program for them; there is another of the type."""


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in NO_PROGRAM])
def test_random_programs_compute_the_right_result(gpu, name):
    prepared = Prepared.of(OPERATORS[name])
    judged = 0
    for mod in random_programs(prepared.task, PROGRAMS):
        try:
            execution = gpu.run(mod, TARGET, prepared.inputs, order=7)
        except NotBuiltError:
            continue
        assert execution.failure is None
        assert prepared.is_right(execution.output), prepared.error(execution.output)
        judged += 1
    assert judged >= 1
