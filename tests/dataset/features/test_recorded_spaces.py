"""Design spaces that are read from the records of a dataset, beside those that MetaSchedule makes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from foretune.compiler.replay import replay
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.tvm_compat import make_tune_context
from foretune.dataset.features.dataset import EmptyDatasetError
from foretune.dataset.features.draft_vector import DraftFeaturizer, moved_bytes
from foretune.dataset.features.reading import task_reading
from foretune.dataset.features.recorded_spaces import load_recorded_spaces
from foretune.dataset.features.roofline import intensity_ratio
from support.checkpoints import HARDWARE, TARGET, TASK
from support.drafts import CPU, matmul, matmul_trace
from support.pools import pooled_record, sampled_traces, write_pool


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    records = [
        pooled_record(TASK.workload_hash, trace, 1e-3 * (number + 1))
        for number, trace in enumerate(sampled_traces(TASK, 6))
    ]
    return write_pool(tmp_path_factory.mktemp("pool") / "dataset", [TASK], records)


def test_a_recorded_space_is_that_of_the_task(dataset):
    (found,) = load_recorded_spaces([dataset])
    assert (found.workload_hash, found.operator) == (TASK.workload_hash, TASK.operator)
    assert found.hardware == HARDWARE and found.latencies_s.tolist() == pytest.approx(
        [1e-3 * number for number in range(1, 7)]
    )
    context = make_tune_context(TASK.mod, TARGET, seed=0, name=TASK.name)
    spaces = read_spaces(context, task_reading(context.mod).structure, TASK.name)
    same = next(s for s in spaces if s.sketch.instructions == found.space.sketch.instructions)
    for ours, theirs in zip(found.space.domains, same.domains, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    drawn = found.space.canonical(found.space.sample(3, np.random.default_rng(0)))
    for trace in found.space.traces(drawn):
        candidate = replay(context, trace)
        assert candidate is not None and json.loads(trace)[0]


def test_tasks_are_chosen_and_few_records_make_no_space(dataset):
    with pytest.raises(EmptyDatasetError, match="no task has 4 measured programs"):
        load_recorded_spaces([dataset], wanted=lambda row: False)
    with pytest.raises(EmptyDatasetError, match="no task has 7 measured programs"):
        load_recorded_spaces([dataset], least=7)


def test_bytes_past_the_second_level_cache_and_their_ratio_by_hand():
    """The whole product fits the cache: each matrix is fetched once."""
    structure = matmul(8, 16, 32)
    sketch, values = read_sketch(matmul_trace(), structure)
    rows = np.array([values])
    vectors = DraftFeaturizer(sketch, structure, CPU)(rows)
    expected = 4 * (8 * 16 + 8 * 32 + 32 * 16)
    np.testing.assert_allclose(moved_bytes(vectors), [expected], rtol=1e-4)
    task = np.zeros((1, 52), dtype=np.float32)
    task[:, 46] = np.log2(1 + structure.flops)  # 8,192 operations at 100 GFLOP/s, bytes at 10 GB/s
    ratio = intensity_ratio(task, CPU.features()[None], moved_bytes(vectors))
    np.testing.assert_allclose(ratio, [(8192 / 100e9) / (expected / 10e9)], rtol=1e-4)
