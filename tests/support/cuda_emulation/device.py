"""Emulated CUDA devices of this process: `install` makes `tvm.cuda(0)` exist.

TVM keeps a device for as long as the process lives, so `install` is for processes that serve nothing else.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from .compiler import Compiler
from .report import KernelReport, parse_reports
from .source import translated

_CUDA = 2
"""DLPack's number of CUDA devices."""

_ATTRIBUTES = {
    1: 1024,
    2: 32,
    3: 49152,
    4: "8.0",
    5: "emulated CUDA device",
    6: 1_000_000,
    7: 1,
    8: "[1024, 1024, 64]",
}
"""TVM's DeviceAttrKind -> value: threads of a block, lanes of a warp, bytes of shared memory, and so on."""


class Emulation:
    """The devices, and the settings of what is compiled and launched next.

    With `trace`, modules that are compiled next report. `edit` changes their CUDA text before it is compiled.
    """

    def __init__(self, cache: Path) -> None:
        self._compiler = Compiler(cache)
        # Kernels find the runtime's symbols because they are global.
        self._runtime = ctypes.CDLL(str(self._compiler.runtime()), mode=ctypes.RTLD_GLOBAL)
        self._runtime.emu_take_reports.restype = ctypes.c_char_p
        self.trace = False
        self.edit: Callable[[str], str] = str

    def set_order(self, order: int) -> None:
        """Order of the threads: 0 ascending, 1 descending, otherwise the seed of random orders."""
        self._runtime.emu_set_order(ctypes.c_uint(order))

    def set_buffers(self, tensors: Sequence[Any]) -> None:
        """Tell the tracer the sizes of these tensors alone; it finds out those of others with some slack."""
        self._runtime.emu_set_tracing(ctypes.c_bool(self.trace))
        self._runtime.emu_forget_bytes()
        for tensor in tensors:
            bytes_ = tensor.numpy().nbytes
            self._runtime.emu_set_bytes(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(bytes_))

    def take_reports(self) -> tuple[KernelReport, ...]:
        """Reports of the launches since the last call."""
        return parse_reports(self._runtime.emu_take_reports().decode())

    def load(self, source: str, launch_parameters: Mapping[str, Sequence[str]]) -> tvm.runtime.Module:
        """Module of a CUDA text."""
        text = translated(self.edit(source), launch_parameters)
        return tvm.runtime.load_module(str(self._compiler.kernels(text, self.trace)))


def install(cache: Path, devices: int = 1, *, build: bool = True) -> Emulation:
    """Make CUDA devices exist in this process; `CUDA_VISIBLE_DEVICES` narrows them down.

    Without `build`, modules that are built stay text, and only exported libraries run.
    """
    emulation = Emulation(cache)
    cpu = tvm.get_global_func("device_api.cpu")

    def create(code: Any, form: str, functions: Any, _sources: Any = None) -> tvm.runtime.Module:
        text = bytes(code).decode()
        parameters = {str(name): _strings(info.launch_param_tags) for name, info in functions.items()}
        if form == "ptx":  # assembly is not emulated: tests give the text of a kernel in its place
            text = text.replace("KERNEL", *parameters)
        return emulation.load(text, parameters)

    tvm_ffi.register_global_func("device_api.cuda", lambda: cpu(), override=True)
    if build:
        tvm_ffi.register_global_func("ffi.Module.create.cuda", create, override=True)
    tvm_ffi.register_global_func(
        "ffi.Module.load_from_bytes.cuda",
        lambda data: emulation.load(*_read_module(bytes(data))),
        override=True,
    )
    _answer_attributes(len(visible_devices(devices)))
    _run_graphs()
    return emulation


def _run_graphs() -> None:
    """Runs what a network captures into a CUDA graph each time anew, with the memory of the first time."""
    call = tvm.get_global_func("vm.builtin.invoke_closure")
    kept: dict[tuple[int, int], Any] = {}

    def cached(machine: Any, allocate: Any, number: int) -> Any:
        key = (machine.value if hasattr(machine, "value") else hash(machine), int(number))
        if key not in kept:
            kept[key] = call(machine, allocate)
        return kept[key]

    def run(machine: Any, captured: Any, arguments: Any, _number: int, _shape: Any = None) -> Any:
        return call(machine, captured, *arguments)

    for name, function in (("get_cached_alloc", cached), ("run_or_capture", run)):
        tvm_ffi.register_global_func(f"vm.builtin.cuda_graph.{name}", function, override=True)


def visible_devices(devices: int) -> list[str]:
    """Devices that this process may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    every = [str(index) for index in range(devices)]
    return every if chosen is None else [name for name in chosen.split(",") if name in every]


def _answer_attributes(devices: int) -> None:
    """Say which devices exist: the CPU's interface, which serves the memory, says that all of them do."""
    stock = tvm.runtime.Device._GetDeviceAttr

    def attribute(self: Any, kind: int, index: int, attribute: int) -> Any:
        if kind != _CUDA:
            return stock(self, kind, index, attribute)
        return int(index < devices) if attribute == 0 else _ATTRIBUTES.get(attribute)

    tvm.runtime.Device._GetDeviceAttr = attribute


def _strings(values: Any) -> list[str]:
    return [str(value) for value in values]


def _read_module(data: bytes) -> tuple[str, dict[str, list[str]]]:
    """Text and launch parameters of an exported CUDA module: format, functions, text.

    Strings and lists begin with their length in 64 bits.
    """
    at = 0

    def number() -> int:
        nonlocal at
        at += 8
        return struct.unpack_from("<Q", data, at - 8)[0]

    def skip_list(item_bytes: int) -> None:
        nonlocal at
        count = number()  # first, as it moves `at`
        at += item_bytes * count

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return data[at - length : at].decode()

    text()  # the format
    functions = {}
    for _ in range(number()):
        text()  # the name as a key
        name = text()
        skip_list(4)  # types of arguments
        functions[name] = [text() for _ in range(number())]
        skip_list(4)  # further properties of arguments
    return text(), functions
