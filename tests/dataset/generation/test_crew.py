"""Tests of the number of processes and tasks that keep a machine busy."""

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.generation import crew as crew_module
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.generation.crew import Crew, plan_crew
from foretune.dataset.measure import ExecutorConfig
from support.cpus import cpu

CUDA = parse_target({"kind": "cuda", "arch": "sm_90"})
CPU = cpu("cooperlake")


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch):
    monkeypatch.setattr(crew_module, "available_cores", lambda: 16)


def crew_of(tmp_path, kind, target, devices=1, **settings):
    executor = ExecutorConfig(kind=kind, key="key", hardware="a100")
    return plan_crew(GenerateConfig(dataset=tmp_path, executor=executor, **settings), target, devices)


def test_a_gpu_has_a_task_for_each_sampler_one_timed_and_a_queue_for_the_compilers(tmp_path):
    assert crew_of(tmp_path, "local", CUDA, per_round=64) == Crew(samplers=8, tasks=8 + 1 + 1)
    # 48 programs ahead of 16 compilers are three rounds of 16.
    assert crew_of(tmp_path, "local", CUDA, per_round=16) == Crew(samplers=8, tasks=8 + 3 + 1)
    assert crew_of(tmp_path, "local", CUDA, devices=4, per_round=16) == Crew(samplers=8, tasks=3)
    assert crew_of(tmp_path, "local", CUDA, workers=64, per_round=16).tasks == 8 + 12 + 1


@pytest.mark.parametrize("kind", ["rpc", "dry_run"])
def test_devices_elsewhere_are_served_like_a_gpu(tmp_path, kind):
    assert crew_of(tmp_path, kind, CPU, per_round=16) == crew_of(tmp_path, "local", CUDA, per_round=16)


def test_two_cores_start_with_two_samplers(tmp_path, monkeypatch):
    monkeypatch.setattr(crew_module, "available_cores", lambda: 2)
    assert crew_of(tmp_path, "local", CUDA).samplers == 2
    monkeypatch.setattr(crew_module, "available_cores", lambda: 1)
    assert crew_of(tmp_path, "local", CUDA).samplers == 1


@pytest.mark.parametrize(("priority", "pauses"), [(True, False), (False, True)])
def test_samplers_pause_beside_a_timing_on_this_cpu_without_priority(tmp_path, monkeypatch, priority, pauses):
    monkeypatch.setattr(crew_module, "realtime_priority_allowed", lambda: priority)
    assert crew_of(tmp_path, "local", CPU) == Crew(samplers=2, tasks=3, pauses=pauses)
    # In the main process nothing can be paused, so that it samples between measurements.
    assert crew_of(tmp_path, "local", CPU, samplers=0).tasks == (2 if priority else 1)


def test_a_task_on_a_cluster_of_cpus_samples_between_its_own_measurements(tmp_path):
    assert crew_of(tmp_path, "ray", CPU, devices=3) == Crew(samplers=3, tasks=1)
    assert crew_of(tmp_path, "ray", CUDA, devices=3).tasks == 4
