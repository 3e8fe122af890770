"""Dry run, which compiles programs and simulates their latencies, and the executor without a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm.target import Target

from ....compiler.codegen.compilation import compile_cuda_source, compile_module, entries
from ....compiler.counts.traffic import compulsory_bytes
from ....compiler.targets import is_cpu, is_cuda
from ....compiler.task import count_flops
from ....compiler.tvm_compat import available_cores, module_from_json
from ...features.roofline import roofline_latency_s
from ...hardware import Hardware, described_hardware, named_hardware
from ...hardware.target_hardware import target_hardware
from ..config import ExecutorConfig, ExecutorConfigError
from ..job import MeasureConfig, MeasureJob, MeasureOutcome, content_key
from ..worker.process import WorkerSpec
from ..worker.roles import Compiler, Role
from ..worker.toolchain import compiler_environment
from .pipeline import Pipeline

# Device of each architecture, used if executor.hardware is empty.
_DEFAULT_DEVICES = {"sm_60": "p100", "sm_70": "v100", "sm_75": "t4", "sm_80": "a100", "sm_90": "h100"}
_LAUNCH_S = 2e-6
# Largest simulated latency as a multiple of the roofline bound.
_SLOWEST = 16.0


class DryCompiler(Compiler):
    """Compiler that keeps no library. Settings: the `hardware` as JSON, and whether to compile CUDA code."""

    def export(self, module: str, path: str, checked: bool) -> dict[str, Any]:
        """Reply with the simulated latency."""
        mod = module_from_json(module)
        executable = compile_module(entries(mod, checked)[0], self.target)
        if self.settings["cuda_code"]:
            compile_cuda_source(executable, self.target)
        hardware = Hardware.from_json(self.settings["hardware"])
        bound_s = roofline_latency_s(count_flops(mod), compulsory_bytes(mod), hardware)
        return {"latency_s": simulated_latency_s(bound_s, content_key(module))}


class DryDevice(Role):
    """Device that replies with the simulated latency and runs nothing."""

    def time(
        self, artefact: dict[str, Any], best_latency_s: float, expected: str | None, keep: bool
    ) -> dict[str, Any]:
        latency_s = artefact["latency_s"]
        cut = latency_s > self.config.slow_factor * best_latency_s
        runs = 1 if cut else self.config.repeats
        return {"run_secs": [latency_s] * runs, "cut_short": cut, "run_s": 0.0, "simulated": True}


def simulated_latency_s(bound_s: float, key: str) -> float:
    """Launch overhead plus 1 to 16 times the roofline bound, in seconds; `key` (hex) sets the factor."""
    share = int(key, 16) / 16 ** len(key)
    return _LAUNCH_S + bound_s * _SLOWEST**share


def make_dry_run_executor(
    config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None
) -> Pipeline:
    """Create an executor without a device; compiles CUDA code if a compiler is installed."""
    hardware = _simulated_hardware(config, target)
    try:
        environment = compiler_environment(target, config.cuda_compiler)
        cuda_code = is_cuda(target)
    except ExecutorConfigError:
        environment, cuda_code = {}, False
    compiler = WorkerSpec(
        "dry_compiler",
        target,
        measure,
        environment,
        settings={"cuda_code": cuda_code, "hardware": hardware.to_json()},
    )
    device = WorkerSpec("dry_device", target, measure)
    return Pipeline(measure, [compiler] * (workers or available_cores()), [device], lambda: hardware)


def _simulated_hardware(config: ExecutorConfig, target: Target) -> Hardware:
    if config.hardware:
        device = described_hardware(config.hardware, target)
    elif is_cpu(target):
        device = target_hardware(target)
    else:
        architecture = str(target.attrs.get("arch", ""))
        known = (name for prefix, name in _DEFAULT_DEVICES.items() if architecture.startswith(prefix))
        device = named_hardware(next(known, "a100"))
    return replace(device, name=f"dry run of {device.name}")


class NoExecutor:
    """Executor that describes a device and measures nothing on it."""

    devices = 0
    batches_overlap = False
    stage_pids: Mapping[str, Sequence[int]] = {}

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    def hardware(self) -> Hardware:
        """The device that the executor was created with."""
        return self._hardware

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Raises RuntimeError for any job."""
        if jobs:
            raise RuntimeError(f"{len(jobs)} programs to measure in a run that measures nothing")
        return []

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> NoExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
