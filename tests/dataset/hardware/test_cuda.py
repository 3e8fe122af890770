"""Tests of the description of CUDA devices, by a driver that is made for the test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from foretune.dataset.hardware import NoCudaDeviceError, cuda, named_hardware, probe_cuda

# Answers of an H200's driver, by CUdevice_attribute.
H200_ATTRIBUTES = {
    **{1: 1024, 8: 49152, 10: 32, 12: 65536, 13: 1980000, 16: 132, 36: 3201000, 37: 6144, 38: 62914560},
    **{39: 2048, 75: 9, 76: 0, 81: 233472, 82: 65536, 97: 232448, 106: 32},
}
DRIVER_SOURCE = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int index) { *device = 40 + index; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "NVIDIA H200", length); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 150754820096ull; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  if (device != 40) return 101;
  switch (attribute) { ANSWERS }
  return 1;
}
"""


def build_driver(folder: Path, devices: int, attributes: dict[int, int]) -> str:
    """Library with the driver's interface and fixed answers."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the stand-in of the NVIDIA driver")
    answers = " ".join(f"case {number}: *value = {value}; return 0;" for number, value in attributes.items())
    source = DRIVER_SOURCE.replace("COUNT", str(devices)).replace("ANSWERS", answers)
    (folder / "driver.c").write_text(source)
    library = folder / "libdriver.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "driver.c"], check=True)
    return str(library)


def test_a_cuda_device_is_described_as_its_driver_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "_DRIVER", build_driver(tmp_path, 1, H200_ATTRIBUTES))
    monkeypatch.setattr(cuda, "_measure", lambda index, memory_bytes: {})
    hardware = probe_cuda()
    assert (hardware.name, hardware.kind, hardware.cores) == ("NVIDIA H200", "cuda", 132)
    assert cuda.cuda_name() == hardware.name
    assert hardware.frequency_ghz == 1.98
    assert hardware.vector_bits == 1024
    assert (hardware.l1_bytes, hardware.l2_bytes, hardware.l3_bytes) == (228 * 1024, 60 * 1024**2, 0)
    assert hardware.peak_gflops == pytest.approx(2 * 132 * 128 * 1.98)
    assert hardware.bandwidth_gbs == pytest.approx(2 * 3.201 * 6144 / 8)
    assert hardware.details["figures"] == "specification"
    assert hardware.details["compute_capability"] == "9.0"
    assert hardware.details["tensor_core_generation"] == 4
    assert hardware.details["memory_bytes"] == 150754820096
    assert hardware.details["shared_bytes_per_block_optin"] == 227 * 1024
    # The same device described by name has the same id.
    assert hardware.hardware_id == named_hardware("h200").hardware_id


def test_measured_ceilings_take_the_place_of_reported_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "_DRIVER", build_driver(tmp_path, 1, H200_ATTRIBUTES))
    measured = {"peak_gflops": 50e3, "bandwidth_gbs": 4300.0, "tensor_fp16_gflops": 7e5}
    monkeypatch.setattr(cuda, "_measure", lambda index, memory_bytes: dict(measured))
    hardware = probe_cuda()
    assert (hardware.peak_gflops, hardware.bandwidth_gbs) == (50e3, 4300.0)
    assert hardware.details["figures"] == "measured"
    assert hardware.details["tensor_fp16_gflops"] == 7e5
    assert hardware.details["reported_gflops"] == pytest.approx(2 * 132 * 128 * 1.98)


@pytest.mark.parametrize("index", [1, -1])
def test_a_cuda_device_that_is_not_there_is_an_error(tmp_path, monkeypatch, index):
    monkeypatch.setattr(cuda, "_DRIVER", build_driver(tmp_path, 1, H200_ATTRIBUTES))
    with pytest.raises(NoCudaDeviceError, match=f"CUDA device {index} does not exist: there are 1"):
        probe_cuda(index)


def test_a_driver_without_devices_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "_DRIVER", build_driver(tmp_path, 0, {}))
    with pytest.raises(NoCudaDeviceError, match="finds none"):
        probe_cuda()


def test_a_driver_that_fails_is_an_error(tmp_path, monkeypatch):
    some = {number: value for number, value in H200_ATTRIBUTES.items() if number != 38}
    monkeypatch.setattr(cuda, "_DRIVER", build_driver(tmp_path, 1, some))
    with pytest.raises(NoCudaDeviceError, match="fails with error 1"):
        probe_cuda()


def test_a_machine_without_driver_is_an_error(monkeypatch):
    monkeypatch.setattr(cuda, "_DRIVER", "libcuda-of-no-machine.so")
    with pytest.raises(NoCudaDeviceError, match=r"driver .* is not installed"):
        probe_cuda()


@pytest.mark.parametrize(("capability", "generation"), [("6.0", 0), ("7.5", 2), ("9.0", 4), ("10.0", 5)])
def test_generation_of_tensor_cores(capability, generation):
    assert cuda._tensor_core_generation(capability) == generation


@pytest.mark.gpu
def test_this_gpu_is_measured():
    try:
        hardware = probe_cuda()
    except NoCudaDeviceError as error:
        pytest.skip(str(error))
    assert hardware.details["figures"] == "measured"
    assert 0.3 < hardware.peak_gflops / hardware.details["reported_gflops"] < 1.2
    assert 0.5 < hardware.bandwidth_gbs / hardware.details["reported_bandwidth_gbs"] < 1.1
