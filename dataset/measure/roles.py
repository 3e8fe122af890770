"""What a worker process can be: each role is a class whose methods are the operations it is asked for."""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from .bench import Bench
from .compilation import TIMED, entries, export, jit, load
from .job import MeasureConfig
from .reference import Entries, save_expected
from .undisturbed import undisturbed

LIBRARIES_KEPT = 32
"""How many libraries of `MeasureJob.keep_built` stay loaded in a process."""


class StaleSessionError(Exception):
    """The device was not asked yet: the connection to it must be made again first."""


class DeviceLostError(Exception):
    """The connection to the device broke while it ran the candidate."""


class Role:
    """A worker process's work for one target. `settings` are those of a role alone, as JSON has them."""

    def __init__(self, target: Target, config: MeasureConfig, **settings: Any) -> None:
        self.target = target
        self.config = config
        self.settings = settings

    def prepare(self) -> None:
        """Does what must come before the first operation, and again after the device was lost."""

    def usable(self) -> bool:
        """Whether the process can go on after an operation failed."""
        return True


class Host(Role):
    """Builds in memory and times on the CPU of this machine."""

    def __init__(self, target: Target, config: MeasureConfig, **settings: Any) -> None:
        super().__init__(target, config, **settings)
        self.bench = Bench(tvm.cpu(), config)
        self._built: dict[str, tuple[tvm.runtime.Module, Entries]] = {}
        self._kept: OrderedDict[str, tuple[tvm.runtime.Module, Entries]] = OrderedDict()

    def reference(self, module: str, path: str) -> dict[str, Any]:
        save_expected(module, Path(path))
        return {}

    def build(self, key: str, module: str, checked: bool) -> dict[str, Any]:
        """Compiles a module under a name and resolves its entry, which triggers the JIT."""
        start = time.perf_counter()
        mod, buffers = entries(load(module), checked)
        library = jit(mod, self.target)
        library[TIMED]
        self._built[key] = library, buffers
        return {"build_s": time.perf_counter() - start}

    def run(
        self, key: str, best_latency_s: float, expected: str | None, keep: bool, count: bool
    ) -> dict[str, Any]:
        """Times what was built under a name and forgets it, unless it is to be kept."""
        if key in self._built:
            library, buffers = self._built.pop(key)
        else:
            library, buffers = self._kept.pop(key)
        if keep:
            self._kept[key] = library, buffers
            if len(self._kept) > LIBRARIES_KEPT:
                self._kept.popitem(last=False)
        with undisturbed():
            return self.bench.measure(library, buffers, best_latency_s, expected, count)


class Compiler(Role):
    """Builds libraries for a device that is elsewhere."""

    def reference(self, module: str, path: str) -> dict[str, Any]:
        save_expected(module, Path(path))
        return {}

    def export(self, module: str, path: str, checked: bool) -> dict[str, Any]:
        """Writes the library of a module; replies what a device must know of it."""
        mod, buffers = entries(load(module), checked)
        export(mod, self.target, Path(path))
        return {"library": path, "buffers": buffers}


class Device(Role):
    """Times libraries on the one device of its target that this process sees."""

    def __init__(self, target: Target, config: MeasureConfig, **settings: Any) -> None:
        super().__init__(target, config, **settings)
        self._kept: OrderedDict[str, tvm.runtime.Module] = OrderedDict()

    def prepare(self) -> None:
        kind = self.target.kind.name
        device = tvm.device("cpu" if kind == "llvm" else kind, 0)
        if not device.exist:
            raise RuntimeError(f"no {kind} device")
        self.bench = Bench(device, self.config)

    def usable(self) -> bool:
        """A CUDA context that a program has corrupted fails at whatever comes next."""
        try:
            tvm.runtime.empty((1,), "float32", self.bench.device)
            self.bench.device.sync()
        except Exception:
            return False
        return True

    def time(
        self, artefact: dict[str, Any], best_latency_s: float, expected: str | None, keep: bool
    ) -> dict[str, Any]:
        """Times a library that a Compiler wrote."""
        path = artefact["library"]
        library = self._kept.pop(path, None) or tvm.runtime.load_module(path)
        if keep:
            self._kept[path] = library
            if len(self._kept) > LIBRARIES_KEPT:
                self._kept.popitem(last=False)
        return self.bench.measure(library, artefact["buffers"], best_latency_s, expected)
