"""Tests of draft features: structure, loop nests and limits by hand, golden vectors, reading records."""

import json
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.operators import Conv2d, Dense, GroupConv2d
from foretune.compiler.replay import replay
from foretune.compiler.structure.limits import GpuLimits, shared_bytes, within_limits
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.parallelism import bound_extent
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.read_spaces import gpu_limits, read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.read_traces import SketchReader
from foretune.compiler.structure.structure import Term
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from foretune.dataset.features.draft_vector import (
    BALANCE,
    BAND_BYTES,
    DRAFT_DIM,
    FILLED,
    INNERMOST,
    LANES,
    PARALLEL,
    DraftFeaturizer,
    draft_vectors,
)
from support.drafts import CPU, matmul, matmul_trace


def featurized(*traces) -> np.ndarray:
    read = [read_sketch(trace, matmul()) for trace in traces]
    return DraftFeaturizer(read[0][0], matmul(), CPU)(np.array([values for _, values in read]))


def test_structure_of_a_strided_convolution():
    op = Conv2d(batch=1, in_channels=3, height=9, width=9, out_channels=4, kernel=3, stride=2, padding=1)
    structure = read_structure(as_task_module(op.prim_func()))
    anchor = structure.anchor
    assert anchor.extents == (1, 4, 5, 5, 3, 3, 3)
    assert anchor.reduction == (False,) * 4 + (True,) * 3
    data, weight = anchor.reads
    # A tile of 2 output rows and the whole window reads 2 * (2 - 1) + (3 - 1) + 1 input rows.
    tile = [np.float32([extent]) for extent in (1, 4, 2, 5, 3, 3, 3)]
    assert [float(extent[0]) for extent in data.extents(tile)] == [1, 3, 5, 11]
    assert [float(extent[0]) for extent in weight.extents(tile)] == [4, 3, 3, 3]
    assert data.stride(3) == 2
    assert data.stride(2) == 2 * 11
    assert weight.stride(3) == 0


def test_groups_are_quotients():
    op = GroupConv2d(batch=1, in_channels=4, height=7, width=8, out_channels=6, kernel=3, groups=2)
    data = read_structure(as_task_module(op.prim_func())).anchor.reads[0]
    # Three output channels share a group of two input channels.
    for channels, expected in ((1, 2), (3, 2), (6, 4)):
        tile = [np.float32([extent]) for extent in (1, channels, 1, 1, 2, 1, 1)]
        assert float(data.extents(tile)[1][0]) == expected


def test_spans_by_hand():
    tile = [np.float32([5]), np.float32([3])]
    assert Term(1, ((0, 2), (1, 1))).span(tile)[0] == 2 * 4 + 2
    assert Term(-3, ((0, 1),)).span(tile)[0] == 12
    assert Term(2, ((0, 1),), divisor=2).span(tile)[0] == 4
    assert Term(1, ((0, 1),), modulus=3).span(tile)[0] == 2


def test_a_nest_by_hand():
    sketch, values = read_sketch(matmul_trace(), matmul())
    assert sketch.structure == "SSRSRS"
    assert [atom.axis for atom in sketch.atoms] == [0, 1, 0, 1, 2, 0, 1, 2, 0, 1]
    assert [atom.band for atom in sketch.atoms] == [0, 0, 1, 1, 2, 3, 3, 4, 5, 5]
    nest = Nest.of(sketch, np.array([values]))
    assert nest.extents[:, 0].tolist() == [2, 1, 1, 2, 8, 2, 1, 4, 2, 8]
    assert nest.outer[:, 0].tolist() == [1, 2, 2, 2, 4, 32, 64, 64, 256, 512, 4096]
    assert nest.lanes().tolist() == [16]
    assert nest.lanes(loops=1).tolist() == [8]
    narrow = replace(sketch, max_vector=4)
    assert Nest.of(narrow, np.array([values])).lanes(loops=1).tolist() == [1]
    # Inside the outer reduction loop: 4 rows, 8 columns and 4 of the inner extent, in float32.
    write, (left, right) = sketch.block.writes[0], sketch.block.reads
    for access, elements, run in ((write, 4 * 8, 8), (left, 4 * 4, 4), (right, 4 * 8, 8)):
        footprint, contiguous = nest.footprint(access)
        assert footprint[5, 0] == 4 * elements
        assert contiguous[5, 0] == 4 * run
    assert nest.footprint(write)[1][0, 0] == 4 * 8 * 16  # whole rows are contiguous


def test_golden_vectors():
    vectors = featurized(matmul_trace(), matmul_trace(i=[1, 8, 1, 1], j=[16, 1, 1, 1], k=[1, 32], unroll=0))
    assert vectors.shape == (2, DRAFT_DIM)
    assert vectors.dtype == np.float32
    log = {name: np.log2(1 + value) for name, value in {"4": 4, "16": 16, "32": 32, "64": 64}.items()}
    # Sketch and task, counts of instructions, then the innermost band: 2 x 8 iterations, 256 outside.
    assert vectors[0, :8].tolist() == [1, 0, 0, 0, 0, 0, 1, 1]
    assert not vectors[0, 8:14].any()
    tile_bytes = 64 + 8 + 32
    expected = [16, 256, 16 / tile_bytes, 64, 32, 8, 4, 32, 32, tile_bytes]
    np.testing.assert_allclose(vectors[0, 14:24], np.log2(1 + np.array(expected)), rtol=1e-6)
    knobs = 14 + 8 * 10 + 5 * 4
    np.testing.assert_allclose(vectors[0, knobs : knobs + 5], [3, 0, 1, 0, 0])  # columns, innermost first
    np.testing.assert_allclose(vectors[0, knobs + 5 : knobs + 10], [1, 1, 0, 1, 0])  # rows
    np.testing.assert_allclose(vectors[0, knobs + 25 : knobs + 30], [2, 3, 0, 0, 0])  # the reduction
    scalars = knobs + 45
    # Parallel: 2 * 1 * 1 * 2 outside of the reduction; lanes: 2 * 8 in registers of 16; step 64 unrolls 64.
    np.testing.assert_allclose(vectors[0, scalars : scalars + 3], [log["4"], 1, 1], rtol=1e-6)
    np.testing.assert_allclose(vectors[0, scalars + 3 : scalars + 6], [log["16"], 1, 1], rtol=1e-6)
    np.testing.assert_allclose(
        vectors[0, scalars + 6 : scalars + 9], [log["64"], log["64"], log["16"]], rtol=1e-6
    )
    assert vectors[1, scalars + 3] == 1  # one lane
    assert [scalars + at for at in (0, 1, 3, 5)] == [PARALLEL, BALANCE, LANES, FILLED]
    assert vectors[0, INNERMOST] == np.float32(np.log2(1 + 8))
    assert len(BAND_BYTES) == 8 and vectors[0, BAND_BYTES[0]] == np.float32(np.log2(1 + tile_bytes))
    assert not vectors[0, list(BAND_BYTES[6:])].any()  # of six bands
    np.testing.assert_allclose(vectors @ np.arange(1.0, DRAFT_DIM + 1), GOLDEN_SUMS, rtol=1e-5)


def test_vectors_do_not_depend_on_the_company():
    sketch, values = read_sketch(matmul_trace(), matmul())
    other = read_sketch(matmul_trace(unroll=0), matmul())[1]
    featurizer = DraftFeaturizer(sketch, matmul(), CPU)
    many = featurizer(np.array([values, *[other] * 3000, values]))
    np.testing.assert_array_equal(many[0], many[-1])
    np.testing.assert_array_equal(many[0], featurizer(np.array([values]))[0])


def test_open_decisions_and_unknown_instructions_are_refused():
    instructions, decisions = matmul_trace()
    with pytest.raises(ValueError, match="no decision"):
        read_sketch([instructions, decisions[1:]], matmul())
    with pytest.raises(ValueError, match="SampleSomething is not a known"):
        read_sketch([[*instructions, ["SampleSomething", [], [], ["v"]]], [*decisions, [15, 0]]], matmul())


def test_threads_and_shared_bytes_of_a_gpu_and_what_tvm_says_of_them():
    module = as_task_module(Dense(rows=64, in_features=64, out_features=128).prim_func())
    target = parse_target("nvidia/nvidia-a100")
    structure, context = read_structure(module), make_tune_context(module, target, seed=0)
    limits = gpu_limits(target)
    assert limits == GpuLimits(threads=1024, shared_bytes=49152)
    rng = np.random.default_rng(0)
    for space in read_spaces(context, structure, "dense"):
        # rows 1, 2, 4, 2, 4 and columns 2, 1, 16, 4, 1 over block, vthread, thread, inner, inner; 4, 2, 8
        values = np.array([[1, 2, 4, 2, 4, 2, 1, 16, 4, 1, 4, 2, 8, 0, 0, 0]])
        nest = Nest.of(space.sketch, values)
        assert bound_extent(nest, "threadIdx.x")[0] == 64
        assert bound_extent(nest, "vthread.x")[0] == 2
        copies = space.sketch.pipeline_copies
        assert shared_bytes(nest)[0] == copies * 4 * 16 * (64 + 64)
        drawn = space.sample(2000, rng)
        allowed = drawn[within_limits(Nest.of(space.sketch, space.values(drawn)), limits)]
        assert 0.005 * len(drawn) < len(allowed) < 0.5 * len(drawn)
        assert all(replay(context, trace) is not None for trace in space.traces(allowed[:6]))


def test_cpus_have_no_limits():
    assert gpu_limits(parse_target("llvm")) is None
    sketch, values = read_sketch(matmul_trace(), matmul())
    assert within_limits(Nest.of(sketch, np.array([values])), None).all()


def test_traces_become_vectors_without_replay():
    broken = '[[["SamplePerfectTile",["l0"],[4,64],["v1"]]],[]]'
    first, second = (json.dumps(t, separators=(",", ":")) for t in (matmul_trace(), matmul_trace(unroll=0)))
    vectors, known = draft_vectors([broken, first, second, "no trace"], SketchReader(matmul()), CPU)
    assert known.tolist() == [False, True, True, False]
    assert not vectors[[0, 3]].any()
    np.testing.assert_array_equal(vectors[1:3], featurized(matmul_trace(), matmul_trace(unroll=0)))


def test_a_sketch_is_read_once_and_says_the_same_each_time(monkeypatch):
    read = []
    monkeypatch.setattr(
        "foretune.compiler.structure.read_traces.read_sketch",
        lambda trace, structure: read.append(trace) or read_sketch(trace, structure),
    )
    reader = SketchReader(matmul())
    traces = [matmul_trace(), matmul_trace([1, 2, 1, 4], [2, 2, 2, 2]), matmul_trace(parallel=16)]
    for trace in traces:
        # JSON with other separators is another text, which is parsed in full.
        for text in (json.dumps(trace, separators=(",", ":")), json.dumps(trace)):
            assert reader.read(text) == read_sketch(trace, matmul())
    assert len(read) == 2 + 3  # two sketches, and three texts with other separators
    missing = json.dumps([matmul_trace()[0], matmul_trace()[1][1:]], separators=(",", ":"))
    with pytest.raises(ValueError, match="decision 4"):
        reader.read(missing)


GOLDEN_SUMS = [43883.7455, 39861.3615]
"""Weighted sum of the columns of each vector. A change needs another DRAFT_VERSION."""
