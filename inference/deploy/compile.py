"""Compilation of a network with tuned or default schedules, and export of the result."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.support.cc import get_cc
from tvm.target import Target

from ...compiler.codegen.argument_checks import marked_internal
from ...compiler.codegen.checksum import append_checksum
from ...compiler.codegen.library_cache import KeptLibrary, kept_library
from ...compiler.codegen.linker import linker
from ...compiler.codegen.objects import NOTHING_LINKED, Linked, ObjectFiles
from ...compiler.codegen.packed_imports import packing
from ...compiler.codegen.packed_weights import tasks_of_functions, with_packed_weights
from ...compiler.codegen.passes import improve_code
from ...compiler.codegen.plain_schedules import plainly_scheduled
from ...compiler.networks import task_names
from ...compiler.targets import is_cpu, is_cuda
from ...compiler.templates.gpu.function import kernel_modules
from ...compiler.tvm_compat import (
    CUDA_PASSES,
    as_task_module,
    load_tensor_intrinsics,
    runs_here,
    workload_hash,
)
from ...dataset.measure.worker.isolation import pinned_to_first_core
from ...dataset.measure.worker.scratch import ScratchFolder
from ...errors import UserError, first_line
from ...files import CannotWriteError, written_whole
from ...wording import part_of
from ..run.network_profile import NetworkProfile
from .arrays import flatten
from .description import MAIN, describe, with_description
from .profile import profile_network
from .scope_warnings import without_scope_warnings


class NetworkBuildError(UserError, RuntimeError):
    """TVM cannot generate code for the network."""


@dataclass(frozen=True, eq=False)
class CompiledNetwork:
    """Network compiled for one device; a call with NumPy inputs returns the outputs in order."""

    executable: tvm.runtime.Executable | None
    """None if the library is the one in `kept`."""
    target: Target
    scheduled: tuple[str, ...]
    """Names of the tasks that run with a schedule from the database."""
    unscheduled: tuple[str, ...]
    """Names of the tasks that run with TVM's default schedule: plain loops on a CPU."""
    task_of: Mapping[str, str]
    """Name of the task of each function that runs one."""
    unbuildable: tuple[str, ...] = ()
    """Names of the tasks that run unscheduled because TVM cannot build code for their schedule."""
    linked: Linked = NOTHING_LINKED
    """Functions whose code was kept when they were measured, which `executable` lacks."""
    kept: KeptLibrary | None = None
    """Place of the library in the cache, if it has one."""

    @cached_property
    def device(self) -> tvm.runtime.Device:
        """Device of the target's kind on this machine."""
        on_cpu = is_cpu(self.target)
        return tvm.cpu() if on_cpu else tvm.runtime.device(self.target.kind.name, 0)

    @cached_property
    def machine(self) -> relax.VirtualMachine:
        """The network on the device; a network for another machine is never loaded."""
        return relax.VirtualMachine(self._module, self.device)

    @cached_property
    def _module(self) -> tvm.runtime.Module:
        """The network's code, from which virtual machines are created."""
        if self._library is None:
            assert self.executable is not None
            return self.executable.jit()
        with without_scope_warnings():
            return tvm.runtime.load_module(str(self._library))

    @cached_property
    def _library(self) -> Path | None:
        """CPU library in a folder that lives as long as this object; None if no compiler can link it.

        Exports copy this library, which ends with its checksum, so that LLVM generates code once. Without it,
        every load and every export generates the code again.
        """
        if not is_cpu(self.target) or (self.executable is not None and get_cc() is None):
            return None
        folder = ScratchFolder()
        weakref.finalize(self, folder.cleanup)
        path = folder.path / "network.so"
        if self.executable is None:
            assert self.kept is not None
            self.kept.write(path)
            return path
        try:
            self._link(path)
        except Exception:  # TVM passes on the linker's error; `export` reports it
            return None
        return path

    @property
    def is_library(self) -> bool:
        """Whether the code is in a library, which is linked now if it was not before."""
        return self._library is not None

    @property
    def from_earlier_run(self) -> bool:
        """Whether some of the code comes from the cache, or from measurements, as long as that is trusted."""
        return self.executable is None or bool(self.linked.symbols)

    def keep(self) -> None:
        """Keeps the library for later runs. Call it after a comparison of the outputs."""
        if self.kept is not None and (library := self._library) is not None:
            self.kept.store(library, self.task_of)

    def forget(self) -> None:
        """Removes the library from the cache."""
        if self.kept is not None:
            self.kept.remove()

    def link(self) -> None:
        """Generates the network's code now, and not at its first run or export."""
        _ = self._module

    def _link(self, path: Path) -> None:
        assert self.executable is not None
        with without_scope_warnings():
            self.executable.export_library(
                str(path),
                fcompile=linker(self.target),
                fpack_imports=packing(self.target),
                **self.linked.link_arguments(path.parent),
            )
        append_checksum(path)

    def __call__(self, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
        return [tensor.numpy() for tensor in flatten(self.bind(*inputs)())]

    def export(self, path: Path) -> None:
        """Writes a shared library with code, weights and a description, which `load` reads.

        The file ends with its checksum. Stock TVM's `relax.VirtualMachine` runs it too. Raises
        NetworkBuildError if the library cannot be linked or written, and leaves an earlier file as it was.
        """
        try:
            with written_whole(path, field="export") as partial, TemporaryDirectory() as folder:
                library = self._library
                if library is None:
                    library = Path(folder) / "network.so"
                    self._link(library)
                shutil.copyfile(library, partial)
        except Exception as error:  # TVM passes on the linker's error
            reason = str(error) if isinstance(error, CannotWriteError) else ""
            reason = reason or f"export={path}: cannot be written: {first_line(error)}"
            raise NetworkBuildError(reason) from error

    def lend(self, path: Path) -> None:
        """`export` to a new file of this run, which is another name of the library where that is possible."""
        try:
            if self._library is not None:
                os.link(self._library, path)
                return
        except OSError:  # in another file system
            pass
        self.export(path)

    def profile(self, *inputs: NDArray[Any]) -> NetworkProfile:
        """Times the calls of a run, see `profile_network`."""
        tensors = [tvm.runtime.tensor(array, self.device) for array in inputs]
        self.machine["main"](*tensors)  # starts TVM's threads, which would inherit the binding to a core
        with pinned_to_first_core():
            return profile_network(self._module, self.device, tensors, self.task_of)

    def bind(self, *inputs: NDArray[Any], entry: str = MAIN) -> Callable[[], Any]:
        """A call to time: inputs are already on the device, outputs stay there, and the call waits.

        `entry` is the name of the Relax function.
        """
        tensors = [tvm.runtime.tensor(array, self.device) for array in inputs]
        run = self.machine[entry]

        def call() -> Any:
            outputs = run(*tensors)
            self.device.sync()
            return outputs

        return call


def compile_network(
    relax_mod: tvm.IRModule,
    target: Target,
    database: ms.Database | None = None,
    *,
    unscheduled: Collection[str] = (),
    plain: Collection[str] = (),
    kept: ObjectFiles | None = None,
) -> CompiledNetwork:
    """Compiles a module from `compiler.networks.to_relax` for a device of the target.

    Each task in `database` gets its best schedule there; without a database the result is the untuned
    baseline. MetaSchedule's database ignores the target, so pass a database that was filled for `target`
    alone. Tasks with a workload hash in `unscheduled` run without a schedule, whatever the database holds.
    So do tasks with a schedule that does not build. Tasks in `plain` that have no schedule then get a plain
    one (`plain_schedules`), on a CPU. Tasks are linked from files in `kept`. Raises NetworkBuildError.
    """
    improve_code()
    hashes = workload_hashes(relax_mod)
    scheduled_mod = _with_schedules(relax_mod, target, database, hashes, unscheduled)
    tasks = task_names(relax_mod)
    names = list(tasks.values())
    scheduled = tuple(name for name in names if _is_scheduled(scheduled_mod[name]))
    loops = [name for name, of in hashes.items() if of in plain and not _is_scheduled(scheduled_mod[name])]
    scheduled_mod = plainly_scheduled(scheduled_mod, loops)
    left = tuple(name for name in names if name not in scheduled)
    place = _place(scheduled_mod, target, kept)
    if place is not None and place.task_of is not None:
        return CompiledNetwork(None, target, scheduled, left, place.task_of, kept=place)
    with build_context(target):
        try:
            packed_mod = marked_internal(with_packed_weights(scheduled_mod))
            task_of = tasks_of_functions(packed_mod, hashes, tasks)
            linked = NOTHING_LINKED if kept is None else kept.linked_into(packed_mod, target, task_of)
            executable = _compiled(packed_mod, target, task_of, linked)
        except Exception as error:  # TVM raises several kinds
            broken = {
                name: hashes[name] for name in scheduled if not _builds(name, scheduled_mod[name], target)
            }
            if broken:
                kept_out = {*unscheduled, *broken.values()}
                compiled = compile_network(
                    relax_mod, target, database, unscheduled=kept_out, plain=plain, kept=kept
                )
                return replace(compiled, unbuildable=tuple(broken))
            if loops:  # a plain schedule does not build
                return compile_network(relax_mod, target, database, unscheduled=unscheduled, kept=kept)
            raise NetworkBuildError(
                f"target={target.kind.name}: TVM cannot build the network with "
                f"{part_of(len(scheduled), len(names), 'task')} scheduled: {first_line(error)}; try other "
                "input shapes"
            ) from error
    compiled = CompiledNetwork(executable, target, scheduled, left, task_of, linked=linked, kept=place)
    if kept is not None and linked.symbols and not compiled.is_library:  # the linker cannot do it
        kept.distrust()
        return compile_network(relax_mod, target, database, unscheduled=unscheduled, plain=plain)
    return compiled


def _place(scheduled_mod: tvm.IRModule, target: Target, kept: ObjectFiles | None) -> KeptLibrary | None:
    """Place of the library in the cache; None if the run uses no cache, or the network does not run here."""
    if kept is None or not kept.uses_cache or not is_cpu(target) or not runs_here(target):
        return None
    return kept_library(scheduled_mod, target, Path(__file__).parent)


def _compiled(
    packed_mod: tvm.IRModule, target: Target, task_of: Mapping[str, str], linked: Linked
) -> tvm.runtime.Executable:
    """The executable of a module with packed weights, without the functions that are linked."""
    description = describe(packed_mod, target, task_of)
    described_mod = packed_mod if description is None else with_description(packed_mod, description)
    if templates := kernel_modules(described_mod):
        described_mod = described_mod.with_attr("external_mods", templates)
    return tvm.compile(described_mod, target=target, relax_pipeline=linked.pipeline())


def _with_schedules(
    relax_mod: tvm.IRModule,
    target: Target,
    database: ms.Database | None,
    hashes: Mapping[str, str],
    unscheduled: Collection[str],
) -> tvm.IRModule:
    """The module with the schedules of the database, except for the workloads in `unscheduled`."""
    scheduled_mod = relax_mod
    if database is not None:
        with target, database:
            scheduled_mod = relax.transform.MetaScheduleApplyDatabase()(relax_mod)
    scheduled_mod = tvm.IRModule(scheduled_mod.functions, attrs=scheduled_mod.attrs)
    for name, workload in hashes.items():
        if workload in unscheduled:
            scheduled_mod[name] = relax_mod[name]
    return scheduled_mod


def build_context(target: Target) -> tvm.transform.PassContext:
    """Compiler settings for tuned networks.

    TVM's pipeline for GPUs fuses a second time, which would change the tuned tasks, so that fusion is
    disabled. The first run captures the kernels into a CUDA graph. Later runs launch the graph instead of
    single kernels.
    """
    on_cuda = is_cuda(target)
    if on_cuda:
        load_tensor_intrinsics()  # which lowering schedules for MMA needs
    options = {**CUDA_PASSES, "relax.backend.use_cuda_graph": True} if on_cuda else {}
    return tvm.transform.PassContext(opt_level=3, config=options, disabled_pass=["FuseOps", "FuseTIR"])


def _is_scheduled(func: tvm.tirx.PrimFunc) -> bool:
    return bool(func.attrs.get("tirx.is_scheduled", False))


def _builds(name: str, func: tvm.tirx.PrimFunc, target: Target) -> bool:
    """Whether TVM builds code for one function."""
    try:
        tvm.tirx.build(tvm.IRModule({name: func.with_attr("global_symbol", name)}), target=target)
    except Exception:  # TVM raises several kinds
        return False
    return True


def workload_hashes(mod: tvm.IRModule) -> dict[str, str]:
    """Workload hash of each TIR function by its name."""
    return {
        var.name_hint: workload_hash(as_task_module(func))
        for var, func in mod.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc)
    }
