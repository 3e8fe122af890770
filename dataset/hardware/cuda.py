"""Probe of a CUDA device: attributes from its driver, and peaks measured with torch."""

from __future__ import annotations

import ctypes
from typing import Any

from ...compiler.hardware import Hardware
from ...errors import UserError

_DRIVER = "libcuda.so.1"

# Values of CUdevice_attribute in cuda.h, which are stable.
_ATTRIBUTES = {
    "threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "warp_size": 10,
    "registers_per_block": 12,
    "clock_khz": 13,
    "multiprocessors": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "capability_major": 75,
    "capability_minor": 76,
    "shared_bytes_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "shared_bytes_per_block_optin": 97,
    "blocks_per_multiprocessor": 106,
}
_COPIED_ATTRIBUTES = (
    "memory_bus_bits",
    "warp_size",
    "threads_per_block",
    "threads_per_multiprocessor",
    "blocks_per_multiprocessor",
    "registers_per_block",
    "registers_per_multiprocessor",
    "shared_bytes_per_block",
    "shared_bytes_per_block_optin",
)
# float32 lanes of a multiprocessor by compute capability (CUDA C++ Programming Guide, arithmetic throughput).
_FLOAT_LANES = {"6.0": 64, "6.1": 128, "7.0": 64, "7.5": 64, "8.0": 64}
_NEWER_FLOAT_LANES = 128
_TENSOR_CORE_GENERATIONS = {"7.0": 1, "7.2": 1, "7.5": 2, "8.0": 3, "8.6": 3, "8.7": 3, "8.9": 4, "9.0": 4}
_MATRIX_ROWS = 8192
_COPY_BYTES = 2 * 1024**3


class NoCudaDeviceError(UserError, RuntimeError):
    """No CUDA device has this index, or the driver is missing."""


def probe_cuda(index: int = 0) -> Hardware:
    """Describe a CUDA device by its driver index; takes some seconds.

    Peak arithmetic and bandwidth are measured if torch has CUDA, else computed from the clocks. Raises
    NoCudaDeviceError.
    """
    name, memory_bytes, attributes = _ask_driver(index)
    capability = f"{attributes['capability_major']}.{attributes['capability_minor']}"
    frequency_ghz = attributes["clock_khz"] / 1e6
    lanes = attributes["multiprocessors"] * _FLOAT_LANES.get(capability, _NEWER_FLOAT_LANES)
    # A multiply-add is two operations; memory moves data on both edges of its clock.
    reported_gflops = 2 * lanes * frequency_ghz
    reported_gbs = 2 * attributes["memory_clock_khz"] / 1e6 * attributes["memory_bus_bits"] / 8
    measured = _measure(index, memory_bytes)
    return Hardware(
        name=name,
        kind="cuda",
        cores=attributes["multiprocessors"],
        frequency_ghz=frequency_ghz,
        vector_bits=attributes["warp_size"] * 32,
        l1_bytes=attributes["shared_bytes_per_multiprocessor"],
        l2_bytes=attributes["l2_bytes"],
        l3_bytes=0,
        peak_gflops=measured.pop("peak_gflops", reported_gflops),
        bandwidth_gbs=measured.pop("bandwidth_gbs", reported_gbs),
        details={
            "figures": "measured" if measured else "specification",
            "compute_capability": capability,
            "memory_bytes": memory_bytes,
            "memory_clock_ghz": attributes["memory_clock_khz"] / 1e6,
            "reported_gflops": reported_gflops,
            "reported_bandwidth_gbs": reported_gbs,
            "tensor_core_generation": _tensor_core_generation(capability),
            **measured,
            **{name: attributes[name] for name in _COPIED_ATTRIBUTES},
        },
    )


def cuda_name(index: int = 0) -> str:
    """Name of a CUDA device as its driver reports it; raises NoCudaDeviceError."""
    return _ask_driver(index)[0]


def _ask_driver(index: int) -> tuple[str, int, dict[str, int]]:
    """Name, bytes of memory and `_ATTRIBUTES` of a device."""
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError as error:
        raise NoCudaDeviceError(
            f"no CUDA device: the NVIDIA driver ({_DRIVER}) is not installed; use target=llvm here, or "
            "describe a device by name"
        ) from error
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        raise NoCudaDeviceError(
            "no CUDA device: the NVIDIA driver finds none; see nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
            "target=llvm"
        )
    if not 0 <= index < count.value:
        raise NoCudaDeviceError(
            f"CUDA device {index} does not exist: there are {count.value}; use an index from 0 to "
            f"{count.value - 1}"
        )
    device = ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    memory_bytes = ctypes.c_size_t()
    failed = (
        driver.cuDeviceGet(ctypes.byref(device), index)
        or driver.cuDeviceGetName(name, len(name), device)
        or driver.cuDeviceTotalMem_v2(ctypes.byref(memory_bytes), device)
    )
    attributes = {}
    for attribute, number in _ATTRIBUTES.items():
        value = ctypes.c_int()
        failed = failed or driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        attributes[attribute] = value.value
    if failed:
        raise NoCudaDeviceError(
            f"CUDA device {index}: the NVIDIA driver fails with error {failed}; check it with nvidia-smi"
        )
    return name.value.decode(), memory_bytes.value, attributes


def _tensor_core_generation(capability: str) -> int:
    """Generation of the tensor cores, 0 without tensor cores."""
    newest = 5 if float(capability) >= 10 else 0
    return _TENSOR_CORE_GENERATIONS.get(capability, newest)


def _measure(index: int, memory_bytes: int) -> dict[str, Any]:
    """Peaks measured with torch, empty if torch has no CUDA."""
    import torch

    if not torch.cuda.is_available():
        return {}
    from .peaks import copy_gbs, matmul_gflops

    device = torch.device("cuda", index)
    return {
        "peak_gflops": matmul_gflops(device, _MATRIX_ROWS),
        "bandwidth_gbs": copy_gbs(device, min(_COPY_BYTES, memory_bytes // 8)),
        "tensor_fp16_gflops": matmul_gflops(device, _MATRIX_ROWS, torch.float16),
    }
