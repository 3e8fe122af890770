"""Keys of tasks and files of pretuned schedules."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from foretune.compiler.operators import Conv2d, Dense, to_task
from foretune.dataset.records.stored_tasks import task_row
from foretune.inference.fasor.pretuned_schedules import (
    PretunedError,
    PretunedSchedule,
    PretunedSchedules,
    TaskKey,
    device_of,
    target_type,
    write_schedules,
)

ZEN = '{"keys": ["cpu"], "kind": "llvm", "mcpu": "znver4", "num-cores": 2, "tag": ""}'


def key(*attributes, kernel_class="dense add"):
    return TaskKey("0", kernel_class, attributes)


def schedule(task, target=ZEN, trace="[[], []]", latency_s=1e-3):
    found = TaskKey.of(task)
    return PretunedSchedule(
        found.workload_hash,
        found.kernel_class,
        found.attributes,
        target,
        "device",
        latency_s,
        trace,
        task_row(task).tir,
    )


def test_a_key_has_the_operators_the_data_types_and_the_numbers():
    found = TaskKey.of(to_task(Dense(rows=16, in_features=32, out_features=64, epilogue="bias_relu")))
    assert found.kernel_class.split()[0] == "dense"
    assert "dtype=float32" in found.kernel_class
    assert found.attributes == (32.0, 64.0, 16.0)  # in_features, out_features, rows
    plain = TaskKey.of(to_task(Dense(rows=16, in_features=32, out_features=64)))
    assert plain.kernel_class != found.kernel_class
    assert plain.attributes == found.attributes


def test_layouts_are_classes_of_their_own():
    shape = {"batch": 1, "in_channels": 8, "height": 8, "width": 8, "out_channels": 16, "kernel": (3, 3)}
    nchw, nhwc = (TaskKey.of(to_task(Conv2d(**shape, layout=layout))) for layout in ("NCHW", "NHWC"))
    assert nchw.similarity(nhwc) == 0.0
    assert nchw.similarity(nchw) == 1.0


def test_the_similarity_is_the_correlation_of_ranks():
    # Ranks 1, 2, 3 and 1, 3, 2: 1 - 6 (0 + 1 + 1) / (3 * 8) = 0.5.
    assert key(1, 2, 3).similarity(key(10, 30, 20)) == pytest.approx(0.5)
    assert key(1, 2, 3).similarity(key(1, 20, 300)) == pytest.approx(1.0)
    assert key(1, 2, 3).similarity(key(3, 2, 1)) == pytest.approx(-1.0)


def test_what_cannot_be_compared_has_no_similarity():
    assert key(1, 2, 3).similarity(key(1, 2, 3, kernel_class="dense")) == 0.0
    assert key(1, 2, 3).similarity(key(1, 2)) == 0.0
    assert key(4, 4, 4).similarity(key(1, 2, 3)) == 0.0  # all ranks are equal
    assert key(4, 4, 4).similarity(key(4, 4, 4)) == 1.0
    assert key().similarity(key()) == 1.0


def test_the_distance_is_in_powers_of_two():
    assert key(1, 3).distance(key(3, 15)) == pytest.approx(1 + 2)  # of 1 + x
    assert key(0, 0).distance(key(0, 0)) == 0.0


def test_a_file_gives_back_what_was_written(tmp_path):
    tasks = [to_task(Dense(rows=2 ** (n % 5), in_features=8, out_features=n)) for n in range(1, 80)]
    written = [schedule(task, trace=f"[[], [{number}]]") for number, task in enumerate(tasks)]
    write_schedules(tmp_path / "all.parquet", written)
    found = PretunedSchedules(tmp_path / "all.parquet")
    assert len(found) == 79  # more than a group of rows
    assert found.targets == [ZEN]
    for one in written:
        numbers = [n for n, other, _ in found.candidates(one.key) if other == one.key]
        read = found.schedule(numbers[0])
        assert replace(read, attributes=tuple(read.attributes)) == one
    assert found.schedule(0).task().workload_hash == found.schedule(0).workload_hash
    assert list(found.candidates(key(1, kernel_class="unknown"))) == []
    assert [path.name for path in tmp_path.iterdir()] == ["all.parquet"]


def test_another_schema_is_named_with_the_next_step(tmp_path):
    path = tmp_path / "old.parquet"
    write_schedules(path, [schedule(to_task(Dense(rows=1, in_features=2, out_features=3)))])
    rows = pq.read_table(path)
    pq.write_table(rows.replace_schema_metadata({"foretune_pretuned_schema": "0"}), path)
    with pytest.raises(PretunedError, match=r"old\.parquet: schema version 0, .* reads 1; .*pretune"):
        PretunedSchedules(path)
    pq.write_table(rows.replace_schema_metadata({}), path)
    with pytest.raises(PretunedError, match="schema version none"):
        PretunedSchedules(path)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and then something else"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "broken.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PretunedError, match=r"broken\.parquet: cannot be read"):
        PretunedSchedules(path)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PretunedError, match=r"cannot be written"):
        write_schedules(tmp_path / "file" / "all.parquet", [])


def test_target_types_go_by_the_architecture():
    assert target_type(ZEN) == "x86 CPU"
    assert target_type('{"kind": "llvm", "mcpu": "x86-64-v2"}') == "x86 CPU"
    assert target_type('{"kind": "llvm", "mcpu": "neoverse-v1"}') == "ARM CPU"
    assert target_type('{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}') == "ARM CPU"
    assert target_type('{"kind": "cuda", "arch": "sm_80"}') == "cuda"
    assert target_type('{"kind": "llvm", "mtriple": "riscv64-linux-gnu"}') == "riscv64 CPU"


def test_devices_of_one_model_have_any_number_of_cores():
    more = json.dumps({**json.loads(ZEN), "num-cores": 64})
    assert device_of(ZEN) == device_of(more)
    assert device_of(ZEN) != device_of(ZEN.replace("znver4", "znver3"))
