"""Roles of a worker process: classes whose methods are the operations that it serves."""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from ....compiler.codegen.compilation import CHECKED, TIMED, entries, export, jit
from ....compiler.codegen.objects import linkable
from ....compiler.targets import is_cpu
from ....compiler.tvm_compat import module_from_json
from ..job import MeasureConfig
from .bench import Bench
from .isolation import isolated_timing
from .loop import RepliedError
from .reference import Entries, save_expected

LIBRARIES_KEPT = 32
"""Number of libraries with `MeasureJob.keep_built` that stay loaded in a process."""


class StaleSessionError(RepliedError):
    """The connection to the device must be renewed first; the device received no request."""

    @property
    def reply(self) -> dict[str, Any]:
        return {"stale": True}


class DeviceLostError(RepliedError):
    """The connection to the device broke while it ran a candidate."""

    @property
    def reply(self) -> dict[str, Any]:
        return {"lost": str(self)}


class Role:
    """Work of a worker process for one target; `settings` are specific to the role, as JSON values."""

    def __init__(self, target: Target, config: MeasureConfig, **settings: Any) -> None:
        self.target = target
        self.config = config
        self.settings = settings

    def prepare(self) -> None:
        """Prepare for the first operation, and again after the device was lost."""

    def usable(self) -> bool:
        """Whether the process can continue after a failed operation."""
        return True


class Host(Role):
    """Role that compiles in memory and times on the local CPU."""

    def __init__(self, target: Target, config: MeasureConfig, **settings: Any) -> None:
        super().__init__(target, config, **settings)
        self.bench = Bench(tvm.cpu(), config)
        self._built: dict[str, tuple[tvm.runtime.Module, Entries]] = {}
        self._kept: OrderedDict[str, tuple[tvm.runtime.Module, Entries]] = OrderedDict()

    def reference(self, module: str, path: str) -> dict[str, Any]:
        save_expected(module, Path(path))
        return {}

    def build(self, key: str, module: str, checked: bool) -> dict[str, Any]:
        """Compile a module under a name and resolve its entry, which triggers the JIT."""
        start = time.perf_counter()
        mod, buffers = entries(module_from_json(module), checked)
        library = jit(linkable(mod, self.target, TIMED), self.target)
        library[TIMED]
        self._built[key] = library, buffers
        return {"build_s": time.perf_counter() - start}

    def run(
        self, key: str, best_latency_s: float, expected: str | None, keep: bool, count: bool
    ) -> dict[str, Any]:
        """Time a built module and drop it, unless `keep` is set."""
        if key in self._built:
            library, buffers = self._built.pop(key)
        else:
            library, buffers = self._kept.pop(key)
        if keep:
            self._kept[key] = library, buffers
            if len(self._kept) > LIBRARIES_KEPT:
                self._kept.popitem(last=False)
        with isolated_timing():
            return self.bench.measure(library, buffers, best_latency_s, expected, count)

    def write_object(self, key: str, path: str) -> dict[str, Any]:
        """Write the object file of a library that `run` kept and that has no entry for a comparison."""
        library, buffers = self._kept[key]
        if CHECKED in buffers:
            raise ValueError("the library has a second entry, as other libraries do")
        library.write_to_file(path)
        return {}


class Compiler(Role):
    """Role that compiles libraries for a remote device."""

    def reference(self, module: str, path: str) -> dict[str, Any]:
        save_expected(module, Path(path))
        return {}

    def export(self, module: str, path: str, checked: bool) -> dict[str, Any]:
        """Write a module's library; replies with the data that a device needs to run it."""
        mod, buffers = entries(module_from_json(module), checked)
        export(mod, self.target, Path(path))
        return {"library": path, "buffers": buffers}


class Device(Role):
    """Role that times libraries on the only visible device of its target."""

    def __init__(self, target: Target, config: MeasureConfig, **settings: Any) -> None:
        super().__init__(target, config, **settings)
        self._kept: OrderedDict[str, tvm.runtime.Module] = OrderedDict()

    def prepare(self) -> None:
        kind = self.target.kind.name
        device = tvm.device("cpu" if is_cpu(self.target) else kind, 0)
        if not device.exist:
            raise RuntimeError(f"no {kind} device")
        self.bench = Bench(device, self.config)

    def usable(self) -> bool:
        """Whether the device still works: a corrupted CUDA context fails at every later call."""
        try:
            tvm.runtime.empty((1,), "float32", self.bench.device)
            self.bench.device.sync()
        except Exception:
            return False
        return True

    def time(
        self, artefact: dict[str, Any], best_latency_s: float, expected: str | None, keep: bool
    ) -> dict[str, Any]:
        """Time a library that a Compiler wrote."""
        path = artefact["library"]
        library = self._kept.pop(path, None) or tvm.runtime.load_module(path)
        if keep:
            self._kept[path] = library
            if len(self._kept) > LIBRARIES_KEPT:
                self._kept.popitem(last=False)
        return self.bench.measure(library, artefact["buffers"], best_latency_s, expected)
