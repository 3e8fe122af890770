"""Programs of the reuse tuner compute the right result without a race, of every operator type of ETO."""

from __future__ import annotations

import pytest
from support.cuda_emulation import NotBuiltError
from support.cuda_emulation.target import TARGET
from support.cuda_programs import Prepared
from support.cuda_reuse import PAIRS, spread, tuner_programs


@pytest.mark.parametrize("kind", PAIRS)
def test_programs_of_the_tuner_are_right_and_race_free(gpu, kind):
    parent, child = PAIRS[kind]
    prepared = Prepared.of(child)
    programs = tuner_programs(parent, prepared.task)
    assert len(programs) > 1
    judged = 0
    for mod in spread(programs, 2):
        try:
            execution = gpu.run(mod, TARGET, prepared.inputs, order=7, trace=True)
        except NotBuiltError:
            continue
        assert execution.failure is None and execution.races == ()
        assert prepared.is_right(execution.output), prepared.error(execution.output)
        judged += 1
    assert judged >= 1
