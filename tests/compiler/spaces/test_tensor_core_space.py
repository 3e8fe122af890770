"""Design spaces of CUDA tasks in 16 and 8 bits: sketches by WMMA, by MMA and for plain threads."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

import pytest
from foretune.compiler.operators import BatchMatmul, Conv2d, Dense, OperatorSettings, to_task
from foretune.compiler.replay import RejectedError, instantiate, replay, trace_content, trace_to_json
from foretune.compiler.spaces.measurable_space import measurable_space
from foretune.compiler.tvm_compat import (
    MMA,
    WMMA,
    design_spaces,
    make_tune_context,
    parse_target,
    tensor_core_way,
)
from foretune.dataset.features.decisions import DECISION_DIM, decision_features
from tvm.s_tir.schedule import Schedule, Trace

A100 = parse_target("nvidia/nvidia-a100")
T4, V100 = parse_target("nvidia/nvidia-t4"), parse_target("nvidia/nvidia-v100")


def dense(dtype: str, **changes) -> Dense:
    return Dense(**{"rows": 64, "in_features": 64, "out_features": 64, "dtype": dtype} | changes)


def sketches(op: OperatorSettings, target=A100) -> dict[str | None, list[Schedule]]:
    """Sketches of an operator's task by their way to use tensor cores."""
    context = make_tune_context(to_task(op).mod, target, seed=0, space=measurable_space(target, None))
    found: dict[str | None, list[Schedule]] = {}
    for space in design_spaces(context, op.label):
        found.setdefault(tensor_core_way(trace_to_json(space.trace)), []).append(space)
    return found


@pytest.mark.parametrize(
    ("op", "ways"),
    [
        (dense("float32"), {None}),
        (dense("float16", epilogue="bias"), {None, WMMA, MMA}),
        (dense("bfloat16", epilogue="bias_gelu"), {None, WMMA, MMA}),
        (
            dense("bfloat16", rows=50, in_features=72, out_features=90, epilogue="bias_gelu"),
            {None, WMMA},
        ),
        (dense("int8", epilogue="bias_relu"), {None, WMMA}),
        (BatchMatmul(batch=2, rows=32, inner=32, columns=32, dtype="bfloat16"), {None, WMMA}),
    ],
)
def test_which_sketches_a_product_has(op, ways):
    assert set(sketches(op)) == ways


@pytest.mark.parametrize(("side", "ways"), [(16, {None, WMMA, MMA}), (14, {None, WMMA})])
def test_which_sketches_a_convolution_has(side, ways):
    """14 x 14 pixels would be padded, which MMA does not have."""
    op = Conv2d(
        batch=1,
        in_channels=32,
        height=side,
        width=side,
        out_channels=32,
        kernel=(3, 3),
        padding=(1, 1),
        layout="NHWC",
        dtype="bfloat16",
        epilogue="bias_relu",
    )
    assert set(sketches(op)) == ways


def test_older_gpus_lack_types():
    assert set(sketches(dense("float16"), T4)) == {None, WMMA, MMA}
    assert set(sketches(dense("bfloat16"), T4)) == {None}
    assert set(sketches(dense("float16"), V100)) == {None}


def test_an_epilogue_is_computed_in_the_same_kernel():
    """GELU reads the sums twice, where MetaSchedule's own sketches start another kernel."""
    found = sketches(dense("bfloat16", epilogue="bias_gelu"))
    for sketch in found[WMMA] + found[MMA]:
        steps = trace_content(sketch.trace)[0]
        assert sum(kind == "Bind" and attributes == ["blockIdx.x"] for kind, _, attributes, _ in steps) == 1


def test_rows_of_shared_memory_are_apart_in_bfloat16_as_in_float16():
    for dtype in ("float16", "bfloat16"):
        for sketch in sketches(dense(dtype))[WMMA]:
            aligned = [
                attributes
                for kind, _, attributes, _ in trace_content(sketch.trace)[0]
                if kind == "StorageAlign"
            ]
            assert aligned == [[0, -2, 32, 8]] * 2


def test_a_pipeline_of_one_iteration_is_refused():
    (sketch,) = sketches(dense("bfloat16"))[MMA]
    context = make_tune_context(
        to_task(dense("bfloat16")).mod, A100, seed=0, space=measurable_space(A100, None)
    )
    steps, decisions = trace_content(sketch.trace)
    rows, columns, sums = [number for number, step in enumerate(steps) if step[0].endswith("Tile")]
    fixed = {rows: [2, 1, 1, 2, 1], columns: [2, 1, 1, 4, 1]}

    def is_valid(inner: list[int]) -> bool:
        values = {**dict(decisions), **fixed, sums: inner}
        return replay(context, [steps, [[number, value] for number, value in values.items()]]) is not None

    assert is_valid([2, 2, 2]) and is_valid([4, 1, 2])
    assert not is_valid([1, 4, 2])


def test_a_trace_replays_in_another_process(tmp_path):
    op = dense("bfloat16", epilogue="bias")
    context = make_tune_context(to_task(op).mod, A100, seed=0, space=measurable_space(A100, None))
    traces = []
    for way in (WMMA, MMA):
        undecided = Trace(sketches(op)[way][0].trace.insts, {})
        for seed in range(1, 30):
            with suppress(RejectedError):
                traces.append(trace_to_json(instantiate(context, undecided, seed).sch.trace))
                break
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    program = """
import json, sys
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.tvm_compat import make_tune_context, parse_target
op = Dense(rows=64, in_features=64, out_features=64, dtype="bfloat16", epilogue="bias")
context = make_tune_context(to_task(op).mod, parse_target("nvidia/nvidia-a100"), seed=0)
traces = json.load(open(sys.argv[1]))
print([trace_to_json(replay(context, trace).sch.trace) == trace for trace in traces])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "traces.json")], capture_output=True, text=True
    )
    assert done.stdout.strip() == "[True, True]", done.stderr[-2000:]


def test_tiles_for_mma_are_tokens_like_other_tiles():
    (sketch,) = sketches(dense("bfloat16"))[MMA]
    tokens = decision_features(sketch.trace)
    kinds = [instruction.kind.name for instruction in sketch.trace.decisions]
    assert tokens.shape == (len(kinds), DECISION_DIM)
    assert kinds[:3] == ["SamplePartitionedTile"] * 2 + ["SamplePerfectTile"]
    # One-hot kind of a tile, five factors, 64 rows in fragments of 16, 64 columns in fragments of 8.
    assert tokens[0, :5].tolist() == [1, 0, 0, 5, 2] and tokens[1, :5].tolist() == [1, 0, 0, 5, 3]
