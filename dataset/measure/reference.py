"""What a program must compute: its arguments, the unscheduled program's outputs, and how close is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import tvm
from numpy.typing import NDArray

from ..tvm_compat import argument_buffers
from .compilation import HOST, load

Buffers = Sequence[tuple[Sequence[int], str]]
"""Shape and dtype of each argument."""

Entries = Mapping[str, Buffers]
"""The arguments of each entry of a library: see `compilation.entries`."""

# Relative to the largest output. A program may add in another order and, in half precision, round each
# partial sum: over 4,096 terms that is about 1.6 % in float16. Integers have no excuse.
_TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 3e-2, "bfloat16": 1e-1}


def host_arguments(buffers: Buffers) -> list[NDArray]:
    """The same values at each call: floats in [-1, 1), small integers, and zeros for what may be an index."""
    rng = np.random.default_rng(0)
    return [_values(rng, tuple(shape), dtype) for shape, dtype in buffers]


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray:
    if "float" in dtype:
        return (rng.random(shape, np.float32) * 2 - 1).astype(_numpy_dtype(dtype))
    if dtype in ("int8", "uint8"):
        return rng.integers(0, 8, shape, dtype)
    return np.zeros(shape, dtype)


def unwritten(shape: Sequence[int], dtype: str) -> NDArray:
    """Fills an output before a checked run, so that what the program leaves out does not pass for right."""
    if "float" in dtype:
        return np.full(shape, np.nan, _numpy_dtype(dtype))
    return np.full(shape, True if dtype == "bool" else np.iinfo(dtype).max, dtype)


def save_expected(module: str, path: Path) -> None:
    """Runs an unscheduled module (TVM's JSON) on this host; saves the arguments that it wrote, by index."""
    mod = load(module)
    before = host_arguments(argument_buffers(mod))
    arguments = [tvm.runtime.tensor(values) for values in before]
    tvm.compile(mod, target=HOST)["main"](*arguments)
    after = [argument.numpy() for argument in arguments]
    # NumPy's files know no bfloat16; float32 holds each of its values.
    written = {
        str(index): values.astype(np.float32) if values.dtype == ml_dtypes.bfloat16 else values
        for index, values in enumerate(after)
        if values.tobytes() != before[index].tobytes()
    }
    np.savez(path, **written)


def load_expected(path: Path) -> dict[int, NDArray]:
    """What `save_expected` saved."""
    with np.load(path, allow_pickle=False) as arrays:
        return {int(index): arrays[index] for index in arrays.files}


def mismatch(got: NDArray, want: NDArray, dtype: str) -> str | None:
    """How an output of dtype `dtype` differs from the reference, None where it is as good as equal."""
    tolerance = _TOLERANCE.get(dtype, 0.0)
    actual, expected = got.astype(np.float64), want.astype(np.float64)
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0.0))
    with np.errstate(invalid="ignore"):  # infinity less infinity, which np.isclose knows to be equal
        wrong = ~np.isclose(actual, expected, rtol=0.0, atol=tolerance * scale, equal_nan=True)
    if not wrong.any():
        return None
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} values differ from the unscheduled program, the first at "
        f"{first}: {actual[first]:g} instead of {expected[first]:g}"
    )


def _numpy_dtype(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
