"""Compiles a network, with tuned schedules or without, checks its outputs and compares latencies."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.measure.undisturbed import own_core
from ..dataset.networks import Network, extract_tasks
from ..dataset.threads import linear_algebra_threads
from ..dataset.tvm_compat import available_cores
from ..dataset.vector_math import vectorise_math
from ..errors import UserError
from .tune_result import LatencyStats

RELATIVE_TOLERANCE = 1e-4
"""Outputs agree within this share of the largest reference output; reordered sums stay far below it."""

SLOW_RATIO, SLOW_SAMPLES = 10.0, 3
"""Calls over so many times slower than the fastest get so few samples: their latency needs less precision."""

SLOW_BUDGET_S = 4.0
"""Once their samples took so long together, in seconds, they get no more."""

PRIMED_S = 1.0
"""Calls slower than this, in seconds, are timed without a run to prime caches before each sample."""

CUDA_OPTIONS: Mapping[str, Any] = {
    # Without it software-pipelined schedules wait for copies that are never made asynchronous.
    "tirx.use_async_copy": True,
    # With storage rewrite most tensor-core schedules do not build.
    "tirx.disable_storage_rewrite": True,
}


class NetworkBuildError(UserError, RuntimeError):
    """TVM cannot generate code for the network."""


@dataclass(frozen=True, eq=False)
class CompiledNetwork:
    """A network compiled for one device: called with numpy inputs, it returns its outputs in order."""

    executable: tvm.runtime.Executable
    machine: relax.VirtualMachine
    device: tvm.runtime.Device
    scheduled: tuple[str, ...]
    """Names of the tasks that run with a schedule from the database."""
    unscheduled: tuple[str, ...]
    """Names of the tasks that run with TVM's default schedule: plain loops on a CPU."""

    def __call__(self, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
        return [tensor.numpy() for tensor in _flatten(self.bind(*inputs)())]

    def export(self, path: Path) -> None:
        """Writes a shared library with code and weights, for `relax.VirtualMachine` where there is only TVM.

        Raises NetworkBuildError where it cannot be linked or written; then nothing is left behind.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished.so")
        try:
            self.executable.export_library(str(unfinished))
            unfinished.replace(path)
        except Exception as error:  # TVM raises what its linker says
            unfinished.unlink(missing_ok=True)
            raise NetworkBuildError(f"export={path}: cannot be written: {_first_line(error)}") from error

    def bind(self, *inputs: NDArray[Any]) -> Callable[[], Any]:
        """A call to time: inputs are on the device, outputs stay there, and it returns when all is done."""
        tensors = [tvm.runtime.tensor(array, self.device) for array in inputs]
        run = self.machine["main"]

        def call() -> Any:
            outputs = run(*tensors)
            self.device.sync()
            return outputs

        return call


@dataclass(frozen=True)
class OutputCheck:
    """How far a compiled network's outputs are from the reference."""

    max_abs_difference: float
    """Over all elements of all outputs; inf where either is not finite."""
    tolerance: float
    """RELATIVE_TOLERANCE of the largest absolute reference output."""

    @property
    def agrees(self) -> bool:
        """True where the difference is within the tolerance."""
        return self.max_abs_difference <= self.tolerance


def compile_network(
    relax_mod: tvm.IRModule, target: Target, database: ms.Database | None = None
) -> CompiledNetwork:
    """Compiles a module from `dataset.networks.to_relax` for this machine's device of the target's kind.

    Tasks found in `database` get their best schedule there; without a database the result is the untuned
    baseline. A database does not know its target: pass one that was filled for `target` alone. Raises
    NetworkBuildError.
    """
    vectorise_math()
    scheduled_mod = relax_mod
    if database is not None:
        with target, database:
            scheduled_mod = relax.transform.MetaScheduleApplyDatabase()(relax_mod)
    names = [task.name for task in extract_tasks(relax_mod, target, "")]
    scheduled = tuple(name for name in names if _is_scheduled(scheduled_mod[name]))
    with build_context(target):
        try:
            scheduled_mod = with_packed_weights(scheduled_mod)
            executable = tvm.compile(scheduled_mod, target=target)
        except Exception as error:  # TVM raises several kinds
            raise NetworkBuildError(
                f"target={target.kind.name}: TVM cannot build the network with {len(scheduled)} of "
                f"{len(names)} tasks scheduled: {_first_line(error)}; try other input shapes, or tune again "
                "with another seed"
            ) from error
    device = tvm.cpu() if target.kind.name == "llvm" else tvm.runtime.device(target.kind.name, 0)
    return CompiledNetwork(
        executable=executable,
        machine=relax.VirtualMachine(executable, device),
        device=device,
        scheduled=scheduled,
        unscheduled=tuple(name for name in names if name not in scheduled),
    )


def with_packed_weights(scheduled_mod: tvm.IRModule) -> tvm.IRModule:
    """The module with its constants in the layouts that schedules chose, which else bring them there."""
    passes = [relax.transform.SplitLayoutRewritePreproc(), relax.transform.FoldConstant()]
    return tvm.transform.Sequential(passes)(scheduled_mod)


def build_context(target: Target) -> tvm.transform.PassContext:
    """Compiler settings for tuned networks.

    TVM's pipeline for GPUs would fuse once more; without that, the tasks that were tuned are what runs.
    """
    options = dict(CUDA_OPTIONS) if target.kind.name == "cuda" else {}
    return tvm.transform.PassContext(opt_level=3, config=options, disabled_pass=["FuseOps", "FuseTIR"])


def check_outputs(network: Network, compiled: CompiledNetwork) -> OutputCheck:
    """Compares the outputs for the network's example inputs with `Network.reference_outputs`.

    Raises ValueError where the two differ in the number or the shapes of outputs.
    """
    reference, actual = network.reference_outputs(), compiled(*network.inputs)
    shapes = [array.shape for array in reference], [array.shape for array in actual]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"network={network.name}: compiled outputs have shapes {shapes[1]}, expected {shapes[0]}"
        )
    difference = scale = 0.0
    for expected, got in zip(reference, actual, strict=True):
        if expected.size:
            gap = np.abs(got.astype(np.float64) - expected.astype(np.float64))
            difference = max(difference, float(np.where(np.isfinite(gap), gap, np.inf).max()))
            scale = max(scale, float(np.abs(expected.astype(np.float64)).max()))
    return OutputCheck(difference, RELATIVE_TOLERANCE * scale)


def bind_eager(network: Network) -> Callable[[], Any]:
    """PyTorch eager's call to time, on the CPU. Raises ValueError for a network without a PyTorch module."""
    if network.module is None:
        raise ValueError(f"network={network.name} comes from an ONNX file: there is no PyTorch eager to time")
    module, inputs = network.module, network.torch_inputs()

    def call() -> Any:
        with torch.inference_mode():
            return module(*inputs)

    return call


def compare_latency(
    calls: Mapping[str, Callable[[], Any]],
    *,
    repeats: int = 20,
    max_seconds: float = 60.0,
    threads: int | None = None,
) -> list[LatencyStats]:
    """Times calls in turns, so that whatever else the machine does meets all of them alike.

    In each round every call runs twice and the second run counts: the first brings its data back into the
    caches and lets the threads of the one before it fall asleep. A run of over PRIMED_S counts itself, since
    those effects drown in it. Rounds rotate who goes first. From the second round on this thread stays on
    the first core: where it floats, it may share one with a thread that TVM has bound there, and a run takes
    twice as long. In the first round the libraries start their threads, which would inherit that.

    Args:
        calls: what to time by name, such as `CompiledNetwork.bind(*inputs)` and `bind_eager(network)`.
        repeats: number of rounds, and so of samples of each call.
        max_seconds: no new round starts after this long; slow calls get fewer samples, but one at least.
        threads: threads that PyTorch may use; by default all cores of this process, as TVM does.
    """
    if repeats < 1 or not calls:
        raise ValueError(f"repeats={repeats}, calls={list(calls)}: give at least one repeat and one call")
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    with linear_algebra_threads(threads or available_cores()):
        start = time.perf_counter()
        for turn in range(repeats):
            if turn and time.perf_counter() - start > max_seconds:
                break
            first = turn % len(names)
            fastest = min((min(seconds) for seconds in samples.values() if seconds), default=0.0)
            for name in names[first:] + names[:first]:
                taken = samples[name]
                enough = len(taken) >= SLOW_SAMPLES or sum(taken) > SLOW_BUDGET_S
                if enough and min(taken) > SLOW_RATIO * fastest:
                    continue
                with own_core() if turn else nullcontext():
                    seconds = _timed(calls[name])
                    taken.append(seconds if seconds > PRIMED_S else _timed(calls[name]))
    return [LatencyStats(name, statistics.median(s), min(s), s) for name, s in samples.items()]


def _timed(call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _is_scheduled(func: tvm.tirx.PrimFunc) -> bool:
    return bool(func.attrs.get("tirx.is_scheduled", False))


def _flatten(output: Any) -> list[tvm.runtime.Tensor]:
    if isinstance(output, tvm.runtime.Tensor):
        return [output]
    return [tensor for item in output for tensor in _flatten(item)]
