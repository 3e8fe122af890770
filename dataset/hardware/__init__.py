"""Devices: probed where the program runs, or named from public specifications."""

from .cpu import probe_cpu
from .cuda import NoCudaDeviceError, probe_cuda
from .description import HARDWARE_DIM, Hardware
from .named import UnknownHardwareError, hardware_names, named_hardware

__all__ = [
    "HARDWARE_DIM",
    "Hardware",
    "NoCudaDeviceError",
    "UnknownHardwareError",
    "hardware_names",
    "named_hardware",
    "probe_cpu",
    "probe_cuda",
]
