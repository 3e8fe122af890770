"""NumPy arrays and torch tensors as inputs and outputs of a compiled network."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray

from ...compiler.dynamic.symbols import Extent, Symbol
from ...errors import UserError
from ...wording import counted
from .description import TensorSpec, shown

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "NDArray[Any] | torch.Tensor"

ALIGNMENT_BYTES = 64
"""Alignment that TVM's generated code relies on; vector loads from other addresses crash the process."""


class InputError(UserError, ValueError):
    """The inputs of a call do not match the network."""


def is_torch(array: object) -> bool:
    """Whether an object is a torch tensor; the check does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


class SizesOfInputs:
    """Solves the shapes of inputs for the symbols, and refuses sizes out of their ranges.

    Kernels rely on the ranges, and the memory is planned for them. With `beyond`, the library has another
    function for sizes outside.
    """

    def __init__(self, specs: Sequence[TensorSpec], symbols: Sequence[Symbol], *, beyond: bool) -> None:
        self._beyond = beyond
        self._symbols = {symbol.name: symbol for symbol in symbols}
        self._extents = [
            (position, spec.name, axis, Extent.parsed(extent, spec.name))
            for position, spec in enumerate(specs)
            for axis, extent in enumerate(spec.shape)
            if isinstance(extent, str)
        ]

    def check(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether all sizes are in their ranges.

        Raises InputError for shapes out of range, and for inputs that disagree on a symbol.
        """
        inside = True
        sizes: dict[str, tuple[int, str]] = {}
        for position, name, axis, extent in self._extents:
            given = shapes[position][axis]
            size, symbol = extent.solved(given), self._symbols[extent.symbol]
            where = f"input {name}: dimension {axis} is {given}"
            if size is None:
                raise InputError(f"{where}, and {extent} is expected: no whole number {symbol.name} gives it")
            inside = inside and symbol.contains(size)
            if not symbol.contains(size) and (not self._beyond or min(size, given) < 1):
                low, high = extent.at(symbol.low), extent.at(symbol.high)
                raise InputError(
                    f"{where}, and {extent} is {low} to {high} ({symbol}); give a size in this range, or "
                    "tune the network for a wider one"
                )
            known, place = sizes.setdefault(symbol.name, (size, f"dimension {axis} of input {name}"))
            if known != size:
                raise InputError(
                    f"{where}, so that {symbol.name} is {size}, and {known} by {place}; make them equal"
                )
        return inside


class InputTensors:
    """Inputs of a network as TVM tensors.

    A contiguous input that is aligned to ALIGNMENT_BYTES is read in place. Torch's tensors usually are
    aligned, and NumPy's arrays seldom are. Any other input is copied into a buffer that this object owns,
    so only one call may use the object at a time.
    """

    def __init__(
        self, specs: Sequence[TensorSpec], symbols: Sequence[Symbol] = (), *, beyond: bool = False
    ) -> None:
        """`symbols` are those in the shapes of the inputs, and `beyond` allows sizes outside their ranges."""
        self._specs = tuple(specs)
        self._sizes = SizesOfInputs(specs, symbols, beyond=beyond) if symbols else None
        self.inside = True
        """Whether the inputs taken last have sizes in the ranges."""
        self._buffers: list[tvm.runtime.Tensor | None] = [None] * len(self._specs)

    def take(self, inputs: Sequence[Any]) -> list[tvm.runtime.Tensor]:
        """TVM tensors with the values of the inputs. Raises InputError."""
        if len(inputs) != len(self._specs):
            expected = ", ".join(map(str, self._specs)) or "none"
            raise InputError(
                f"{counted(len(inputs), 'input')} given, {len(self._specs)} expected: {expected}"
            )
        for spec, array in zip(self._specs, inputs, strict=True):
            _check(spec, array)
        if self._sizes is not None:
            self.inside = self._sizes.check([tuple(array.shape) for array in inputs])
        return [self._tensor(index, array) for index, array in enumerate(inputs)]

    def _tensor(self, index: int, array: Any) -> tvm.runtime.Tensor:
        if is_torch(array):
            array = array.detach()
            in_place = array.is_contiguous() and array.data_ptr() % ALIGNMENT_BYTES == 0
        else:
            # DLPack does not export read-only memory.
            usable = array.flags.c_contiguous and array.flags.writeable
            in_place = usable and _address(array) % ALIGNMENT_BYTES == 0
        if in_place:
            return tvm_ffi.from_dlpack(array)
        buffer = self._buffers[index]
        if buffer is None or tuple(buffer.shape) != tuple(array.shape):
            buffer = self._buffers[index] = tvm.runtime.empty(tuple(array.shape), self._specs[index].dtype)
        if is_torch(array):
            _as_torch(buffer).copy_(array)
        else:
            buffer.copyfrom(array)
        return buffer


def as_outputs(
    tensors: Sequence[tvm.runtime.Tensor], fresh: Sequence[bool], *, torch: bool
) -> list[NDArray[Any]] | list[torch.Tensor]:
    """Outputs as arrays that belong to the caller.

    Args:
        tensors: outputs of one run.
        fresh: for each output, whether the run wrote it into new memory, which the result then owns. Other
            outputs are copied, and so is a tensor that occurs twice.
        torch: whether to return torch tensors.
    """
    results: list[Any] = []
    seen: set[int] = set()
    for tensor, own in zip(tensors, fresh, strict=True):
        shared: Any = _as_torch(tensor) if torch else _as_numpy(tensor)
        address = shared.data_ptr() if torch else _address(shared)
        copied = not own or address in seen
        seen.add(address)
        results.append((shared.clone() if torch else shared.copy()) if copied else shared)
    return results


def _check(spec: TensorSpec, array: Any) -> None:
    """Raises InputError unless the array has the shape and dtype of `spec` and lies in the CPU's memory."""
    expected = f"{spec.dtype} {shown(spec.shape)}"
    if is_torch(array):
        dtype, elsewhere = str(array.dtype).removeprefix("torch."), array.device.type != "cpu"
        same = dtype == spec.dtype
    elif isinstance(array, np.ndarray):
        dtype, elsewhere = str(array.dtype), False
        same = dtype == spec.dtype and array.dtype.isnative
    else:
        raise InputError(
            f"input {spec.name}={array!r:.80}: a {type(array).__name__}; give a NumPy array or a torch "
            f"tensor, {expected}"
        )
    if not same or not _fits(tuple(array.shape), spec.shape):
        raise InputError(
            f"input {spec.name}: {dtype} {list(array.shape)} given, {expected} expected; convert it, or "
            "export the network for other inputs"
        )
    if elsewhere:
        raise InputError(f"input {spec.name}: a tensor on {array.device}; move it to the CPU by .cpu()")


def _fits(shape: Sequence[int], expected: Sequence[int | str]) -> bool:
    """Whether the fixed extents of an input are as expected."""
    return len(shape) == len(expected) and all(
        isinstance(one, str) or one == extent for one, extent in zip(expected, shape, strict=True)
    )


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _as_numpy(tensor: tvm.runtime.Tensor) -> NDArray[Any]:
    """The tensor's memory as an array, which keeps it alive; a copy for a dtype that NumPy lacks."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return tensor.numpy()


def _as_torch(tensor: tvm.runtime.Tensor) -> Any:
    """The tensor's memory as a torch tensor, which keeps it alive."""
    import torch

    return torch.from_dlpack(tensor)


def flatten(output: Any) -> list[tvm.runtime.Tensor]:
    """The output tensors of a network in order; nested tuples are flattened."""
    if isinstance(output, tvm.runtime.Tensor):
        return [output]
    return [tensor for item in output for tensor in flatten(item)]
