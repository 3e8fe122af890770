"""Tests of the executor over this machine's CUDA devices, with a made-up driver."""

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureConfig
from foretune.dataset.measure.config import ExecutorConfig, ExecutorConfigError
from foretune.dataset.measure.executors import cuda

NAMES = ["NVIDIA A100", "NVIDIA A100", "NVIDIA T4"]


@pytest.fixture
def make(monkeypatch):
    """Creates an executor where the devices 4, 5 and 6 are visible, the last one of another kind."""
    monkeypatch.setattr(cuda, "_visible_devices", lambda: ["4", "5", "6"])
    monkeypatch.setattr(cuda, "cuda_name", NAMES.__getitem__)
    target = parse_target("nvidia/nvidia-a100")
    return lambda devices: cuda.make_cuda_executor(
        ExecutorConfig(devices=devices), target, MeasureConfig(), 1
    )


def test_devices_of_two_kinds_are_refused_by_name(make):
    with pytest.raises(ExecutorConfigError, match=r"5: NVIDIA A100, 6: NVIDIA T4.*CUDA_VISIBLE_DEVICES"):
        make(None)


@pytest.mark.parametrize("devices", [1, 2])
def test_devices_of_one_kind_measure_together(make, devices):
    with make(devices) as executor:
        assert executor.devices == devices
