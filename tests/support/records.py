"""Made-up records, their task and their device, for tests without TVM."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.schema import Record, TaskRow

HARDWARE = Hardware("Some CPU", "cpu", 2, 2.5, 256, 32768, 524288, 33554432, 100.0, 20.0)


def task_row(name="t0"):
    return TaskRow(name, f"conv2d_{name}", "conv2d", "{}", "operator", 1e6, '{"tir": 1}')


def record(number=0, run_secs=(2e-3, 1e-3), failure=None, task="t0"):
    return Record(
        workload_hash=task,
        trace=f"[[], [[{number}, 1]]]",
        run_secs=run_secs,
        failure=failure,
        failure_message="boom" if failure else "",
        cut_short=False,
        sampler="exploration/random",
        round=number,
        seed=0,
        hardware_id=HARDWARE.hardware_id,
        target='{"kind": "llvm"}',
        tvm_version="0.27.0",
        timestamp=1.5,
        build_s=0.5,
        run_s=0.25,
    )


def put_shard(store, rows, version):
    """Write records as a shard of another schema version."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata({"foretune_schema": version}), sink)
    content = sink.getvalue().to_pybytes()
    name = f"records-000009-{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    (store.folder / name).write_bytes(content)
