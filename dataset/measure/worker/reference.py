"""Reference of a program: its arguments, the unscheduled program's outputs, and the tolerance."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import tvm
from numpy.typing import NDArray

from ....compiler.codegen.compilation import HOST
from ....compiler.tvm_compat import argument_buffers, module_from_json, named_main
from ....compiler.types import INT8, data_type, known_type, numpy_type

Buffers = Sequence[tuple[Sequence[int], str]]
"""Shape and dtype of each argument."""

Entries = Mapping[str, Buffers]
"""Arguments of each entry of a library, see `compilation.entries`."""


_LOG = logging.getLogger(__name__)


def warn_unchecked(problem: str) -> None:
    """Warn that an unscheduled program failed, so that nothing is compared with its outputs."""
    _LOG.warning(
        "an unscheduled program failed (%s); the programs of its task are measured unchecked", problem
    )


def host_arguments(buffers: Buffers) -> list[NDArray]:
    """Reproducible argument values: floats in [-1, 1), small integers, and zeros for possible indices."""
    rng = np.random.default_rng(0)
    return [_values(rng, tuple(shape), dtype) for shape, dtype in buffers]


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray:
    if "float" in dtype:
        return (rng.random(shape, np.float32) * 2 - 1).astype(numpy_type(dtype))
    if dtype in data_type(INT8).factors:
        return rng.integers(0, 8, shape, dtype)
    return np.zeros(shape, dtype)


def sentinel_output(shape: Sequence[int], dtype: str) -> NDArray:
    """Values to fill an output with before a checked run, so that elements left out are detected."""
    if "float" in dtype:
        return np.full(shape, np.nan, numpy_type(dtype))
    return np.full(shape, True if dtype == "bool" else np.iinfo(dtype).max, dtype)


def save_expected(module: str, path: Path) -> None:
    """Run an unscheduled module (TVM's JSON) on this host and save the arguments that it wrote, by index."""
    mod = named_main(module_from_json(module))
    before = host_arguments(argument_buffers(mod))
    arguments = [tvm.runtime.tensor(values) for values in before]
    tvm.compile(mod, target=HOST)["main"](*arguments)
    after = [argument.numpy() for argument in arguments]
    # NumPy files do not support bfloat16; float32 represents its values exactly.
    written = {
        str(index): values.astype(np.float32) if values.dtype == ml_dtypes.bfloat16 else values
        for index, values in enumerate(after)
        if values.tobytes() != before[index].tobytes()
    }
    np.savez(path, **written)


def load_expected(path: Path) -> dict[int, NDArray]:
    """Load the arrays that `save_expected` saved."""
    with np.load(path, allow_pickle=False) as arrays:
        return {int(index): arrays[index] for index in arrays.files}


def mismatch(got: NDArray, want: NDArray, dtype: str) -> str | None:
    """Difference of an output from the reference as text, None if it is within the tolerance."""
    tolerance = known.tolerances.operator if (known := known_type(dtype)) else 0.0
    actual, expected = got.astype(np.float64), want.astype(np.float64)
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0.0))
    with np.errstate(invalid="ignore"):  # inf - inf; np.isclose handles it
        wrong = ~np.isclose(actual, expected, rtol=0.0, atol=tolerance * scale, equal_nan=True)
    if not wrong.any():
        return None
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} values differ from the unscheduled program, the first at "
        f"{first}: {actual[first]:g} instead of {expected[first]:g}"
    )
