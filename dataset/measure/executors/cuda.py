"""Measurement on local CUDA devices: one compiler process per core, one timing process per device."""

from __future__ import annotations

import itertools
import os

import tvm
from tvm.target import Target

from ....compiler.tvm_compat import available_cores
from ...hardware import NoCudaDeviceError, cuda_name, probe_cuda
from ..config import ExecutorConfig, ExecutorConfigError
from ..job import MeasureConfig
from ..worker.process import WorkerSpec
from ..worker.toolchain import compiler_environment, cuda_environment
from .pipeline import Pipeline


def make_cuda_executor(
    config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None
) -> Pipeline:
    """Create an executor over the visible CUDA devices, which must be of one kind.

    Raises ExecutorConfigError if no device is visible, or if the devices' names differ.
    """
    visible = _visible_devices()[: config.devices]
    if not visible:
        raise ExecutorConfigError(
            "executor=local target=cuda: no CUDA device here; use executor=rpc or executor=ray for a remote "
            "device, or executor=dry_run to rehearse without one"
        )
    names = _names(len(visible)) if len(visible) > 1 else []
    if len(set(names)) > 1:
        listed = ", ".join(f"{device}: {name}" for device, name in zip(visible, names, strict=True))
        raise ExecutorConfigError(
            f"executor=local target=cuda: the CUDA devices differ ({listed}), but a run needs devices "
            "of one kind; choose them with CUDA_VISIBLE_DEVICES, or the first ones with executor.devices"
        )
    compiler = WorkerSpec("compiler", target, measure, compiler_environment(target, config.cuda_compiler))
    found = cuda_environment(config.cuda_compiler)
    devices = [
        WorkerSpec(
            "device", target, measure, {**found, "CUDA_VISIBLE_DEVICES": device, "TVM_NUM_THREADS": "1"}
        )
        for device in visible
    ]
    return Pipeline(measure, [compiler] * (workers or available_cores()), devices, probe_cuda)


def _names(devices: int) -> list[str]:
    """Names of the devices; empty if TVM runs programs without NVIDIA's driver, as on an emulation."""
    try:
        return [cuda_name(index) for index in range(devices)]
    except NoCudaDeviceError:
        return []


def _visible_devices() -> list[str]:
    """Device names as in CUDA_VISIBLE_DEVICES."""
    count = next(index for index in itertools.count() if not tvm.cuda(index).exist)
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return chosen.split(",")[:count] if chosen else [str(index) for index in range(count)]
