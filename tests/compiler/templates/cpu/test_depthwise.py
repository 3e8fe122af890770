"""Templates of depthwise convolutions: outputs over odd shapes, what is read, order and traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.instruction_sets import INSTRUCTION
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.depthwise import (
    Depthwise,
    DepthwiseTemplate,
    cycles,
    depthwise_templates,
    read_depthwise,
)
from foretune.compiler.templates.cpu.programs import scheduled_depthwise, template_traces
from foretune.compiler.tvm_compat import make_tune_context
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tvm.target import Target

from tests.support.contractions import Convolution, Product, run_checked, tolerance
from tests.support.cpus import require

TARGETS = {
    16: Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2}),
    8: Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}),
}
LAYER = Convolution(28, 64, 64, kernel=3, padding=1, depthwise=True, epilogue="relu")
FMA = INSTRUCTION["avx512_fma"]


def read(task: Convolution) -> Depthwise:
    found = read_depthwise(task.module())
    assert found is not None
    return found


@pytest.mark.parametrize("lanes", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int8"])
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_odd_shapes_agree_with_numpy(dtype: str, lanes: int, data: st.DataObject) -> None:
    target = TARGETS[lanes]
    require(target)
    kernel = data.draw(st.sampled_from([1, 3, 5]))
    dilation = data.draw(st.sampled_from([1, 1, 2]))
    channels = data.draw(st.integers(1, 6).map(lambda vectors: vectors * lanes) | st.integers(1, 5 * lanes))
    task = Convolution(
        size=data.draw(st.integers(1 + (kernel - 1) * dilation, 19)),
        channels=channels,
        filters=channels,
        kernel=kernel,
        stride=data.draw(st.sampled_from([1, 2])),
        padding=data.draw(st.integers(0, kernel // 2)),
        dtype=dtype,
        epilogue=data.draw(st.sampled_from(["none", "relu", "convert"])),
        depthwise=True,
        dilation=dilation,
        images=data.draw(st.sampled_from([1, 1, 3])),
    )
    module, depthwise = task.module(), read(task)
    possible = depthwise_templates(depthwise, target, 2)
    assume(possible)  # 67 channels divide into no panels
    template = data.draw(st.sampled_from(possible))
    program = scheduled_depthwise(module, depthwise, template)
    got, expected = run_checked(task, program.mod, target)
    scale = max(float(np.abs(expected).max()), 1.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance(task) * scale, err_msg=str(template))


def test_what_is_read_of_a_layer() -> None:
    """A window of 3 x 3 that is dilated by 2 reaches over 5 rows."""
    task = replace(LAYER, size=30, stride=2, padding=2, dilation=2, images=3, dtype="bfloat16")
    found = read(task)
    assert (found.images, found.rows, found.columns, found.channels) == (3, 15, 15, 64)
    assert (found.taps, found.reach, found.stride) == (9, (5, 5), (2, 2))
    assert found.types == ("bfloat16", "bfloat16", "float32")
    assert "pad_temp" in found.inlined and found.prepared == ()


@pytest.mark.parametrize(
    "other",
    [
        replace(LAYER, depthwise=False),
        replace(LAYER, depthwise=False, kernel=1, padding=0),
        Product(16, 16, 16),
        Product(16, 16, 16, batch=2),
    ],
)
def test_other_tasks_are_no_depthwise_convolutions(other: Convolution | Product) -> None:
    assert read_depthwise(other.module()) is None
    assert read_contraction(LAYER.module()) is None


def test_channels_may_leave_a_part_of_the_last_vector_empty() -> None:
    def panels(channels: int, lanes: int) -> set[tuple[int, int]]:
        layer = read(replace(LAYER, channels=channels, filters=channels))
        return {(t.vectors, t.ragged) for t in depthwise_templates(layer, TARGETS[lanes], 2)}

    assert panels(24, 16) == {(1, 12), (2, 24)}
    assert panels(24, 8) == {(1, 0), (3, 0)}
    assert panels(67, 16) == set()
    assert depthwise_templates(read(LAYER), Target({"kind": "llvm", "mcpu": "x86-64"}), 2) == []


def test_the_estimate_by_hand() -> None:
    """A row of 7 outputs takes 63 multiply-adds, two a cycle, more than its 3 * 9 loads.

    Each thread has 14 rows of 4 tiles for each of 4 vectors of channels.
    """
    layer = read(LAYER)
    template = DepthwiseTemplate(FMA, block=14, tile=(1, 7), vectors=1)
    assert cycles(layer, template, 2) == 4 * (14 * 4 * (31.5 + 3) + 40)
    wide = replace(template, tile=(1, 14))  # 23 of 16 registers
    assert cycles(layer, wide, 2) == pytest.approx(4 * (14 * 2 * (63 * 23 / 16 + 3) + 40))
    strided = replace(template, tile=(1, 7), block=14)
    converted = read(replace(LAYER, dtype="bfloat16", size=56, stride=2))  # 3 * 15 loads and conversions
    assert cycles(converted, strided, 2) == 4 * (14 * 4 * (45 + 3) + 40)
    assert cycles(layer, template, 1) == 2 * cycles(layer, template, 2)


def test_the_first_templates_keep_weights_and_sums_in_registers() -> None:
    found = depthwise_templates(read(LAYER), TARGETS[16], 2)
    for template in found[:4]:
        assert template.tile[0] * template.tile[1] * template.vectors + 9 * template.vectors <= 24
    assert len(set(found)) == len(found)


def test_traces_are_ordinary_ones() -> None:
    module = LAYER.module()
    traces = template_traces(module, TARGETS[16], None, 3)
    assert len(traces) == 3
    for trace in traces:
        candidate = replay(make_tune_context(module, TARGETS[16], seed=0), trace)
        assert candidate is not None and trace_to_json(candidate.sch.trace) == trace
