"""The benchmark of draws for GPUs counts what TVM says, and its samplers propose valid programs."""

from __future__ import annotations

from foretune.compiler.operators import Dense, to_task

from benchmarks.gpu_draws import AFTER, examples, passing, sampling


def test_rows_and_samplers_are_counted():
    task = to_task(Dense(rows=64, in_features=64, out_features=64))
    found = passing(task, "sm_90", count=4, seed=0)
    assert found["replayed"] == found["passed"] + sum(found["causes"].values()) == 4
    sampled = sampling(AFTER, task, rounds=1, per_round=4, seed=0)
    assert sampled["valid"] == 4 and sampled["replayed"] == 4 and sampled["cpu_s"] > 0


def test_every_operator_type_with_the_data_type_has_an_example():
    float16 = {task.operator for task in examples("float16")}
    assert {task.operator for task in examples("float32")} - float16 == {"conv2d_winograd"}
