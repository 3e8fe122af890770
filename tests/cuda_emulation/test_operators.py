"""Random programs for CUDA compute the right result, of the operator types that no pair of ETO has."""

from __future__ import annotations

import pytest
from support.cuda_emulation import NotBuiltError
from support.cuda_programs import OPERATORS, TARGET, Prepared, random_programs
from support.cuda_reuse import PAIRS

OF_PAIRS = {op.operator for pair in PAIRS.values() for op in pair}
"""Types of which `test_reuse.py` executes programs."""


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in OF_PAIRS])
def test_a_random_program_computes_the_right_result(gpu, name):
    prepared = Prepared.of(OPERATORS[name])
    for mod in random_programs(prepared.task, 4):
        try:
            execution = gpu.run(mod, TARGET, prepared.inputs, order=7)
        except NotBuiltError:
            continue
        assert execution.failure is None
        assert prepared.is_right(execution.output), prepared.error(execution.output)
        return
    pytest.fail("TVM builds none of its programs")
