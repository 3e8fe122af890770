"""Hardware descriptions: probed on the running machine, or named from public specifications."""

from ...compiler.hardware import HARDWARE_DIM, Hardware
from .cpu import cpu_name, forget_probes, probe_cpu
from .cuda import NoCudaDeviceError, cuda_name, probe_cuda
from .named import (
    UnfitHardwareError,
    UnknownHardwareError,
    described_hardware,
    hardware_names,
    named_hardware,
)

__all__ = [
    "HARDWARE_DIM",
    "Hardware",
    "NoCudaDeviceError",
    "UnfitHardwareError",
    "UnknownHardwareError",
    "cpu_name",
    "cuda_name",
    "described_hardware",
    "forget_probes",
    "hardware_names",
    "named_hardware",
    "probe_cpu",
    "probe_cuda",
]
