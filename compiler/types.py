"""Data types: one row holds every property of a type. Works without TVM.

Add a row to `TYPES` for a new data type. Instructions that multiply it are rows of `targets.INSTRUCTIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

PLAIN, STORED, INTEGERS = "plain", "stored", "integers"
"""Lowerings of a network: unchanged, with arrays of the type (`narrowing`), or quantised (`quantisation`)."""


@dataclass(frozen=True)
class Tolerances:
    """Accepted differences of outputs, over the largest element of an output."""

    operator: float
    """Of a scheduled operator from the unscheduled one; 0 for integers, which must be equal.

    Programs may reorder sums and, in half precision, round partial sums: over 4,096 terms that is about 1.6 %
    in float16.
    """
    network: float
    """Of a network from float32, if the difference of a rival in the same type is not known."""
    rounding: float
    """Of a network from float32 that is always accepted."""


@dataclass(frozen=True)
class DataType:
    """One data type. `name` is its name in TVM, NumPy, PyTorch and on the command line."""

    name: str
    bits: int
    llvm: str
    """Name in LLVM IR."""
    short: str
    """Name in TVM's tensor intrinsics."""
    tolerances: Tolerances
    triton: str = ""
    """Name in Triton, for the types that the GPU templates load and store."""
    sums: str = ""
    """Type in which an operator of this type sums; empty for types that no operator has."""
    network: str | None = None
    """Lowering of networks: PLAIN, STORED, INTEGERS, or None if networks do not run in this type."""
    data: str = ""
    """Type of the data of a network's products, if it differs from the type of the weights."""
    built_stored: bool = False
    """Whether an operator of this type is built as a network calls it, with arithmetic in float32.

    The others are built as Relax legalises them, with arithmetic in the type.
    """
    needs_products: bool = True
    """Whether a network needs multiply-adds of this type; otherwise, conversions to float32 suffice."""
    winograd_tiles: tuple[int, ...] = ()
    """Tile sizes of Winograd's algorithm whose transformed values this type represents accurately enough."""
    winograd_rounding: float = 0.0
    """Largest accepted error of a layer by Winograd's algorithm over its largest output."""

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's type; bfloat16 comes from ml_dtypes."""
        return np.dtype(getattr(ml_dtypes, self.name, None) or self.name)

    @property
    def is_integer(self) -> bool:
        """Whether the values are integers."""
        return self.numpy.kind in "iu"

    @property
    def range(self) -> tuple[int, int]:
        """Least and largest integer of an integer type."""
        info = np.iinfo(self.numpy)
        return int(info.min), int(info.max)

    @property
    def factors(self) -> tuple[str, str]:
        """Types of data and weight of a network's products."""
        return self.data or self.name, self.name


# In bfloat16, a network rounds several times by up to 2^-9. In float16 it rounds by up to 2^-12, and a CPU
# that computes in the type also rounds partial sums, by about 2^-6 in total over 4,096 terms. In int8 it
# rounds by up to 2^-9 of an array's range, which a few large values stretch.
_EXACT = Tolerances(0.0, 0.0, 0.0)

TYPES: tuple[DataType, ...] = (
    DataType(
        *("float32", 32, "float", "f32", Tolerances(1e-3, 1e-4, 0.0), "fp32", "float32", PLAIN),
        # A fifth of the tolerance of a network, since the errors of its layers add up.
        winograd_tiles=(2, 4),
        winograd_rounding=2e-5,
    ),
    DataType(
        *("float16", 16, "half", "f16", Tolerances(3e-2, 2.0**-4, 2.0**-5), "fp16", "float16", STORED),
        needs_products=False,
    ),
    DataType(
        *("int8", 8, "i8", "s8", Tolerances(0.0, 2.0**-2, 2.0**-6), "", "int32", INTEGERS),
        data="uint8",
    ),
    DataType(
        *("bfloat16", 16, "bfloat", "bf16", Tolerances(1e-1, 2.0**-5, 2.0**-8), "bf16", "float32", STORED),
        built_stored=True,
        winograd_tiles=(2,),
        winograd_rounding=2.0**-7,  # storing the largest output rounds by up to 2^-9
    ),
    DataType("float64", 64, "double", "f64", Tolerances(1e-6, 1e-6, 0.0)),
    DataType("uint8", 8, "i8", "u8", _EXACT),
    DataType("int32", 32, "i32", "s32", _EXACT),
)
"""All data types with traits."""

_BY_NAME = {one.name: one for one in TYPES}

OPERATOR_DTYPES = tuple(one.name for one in TYPES if one.sums)
"""Data types of operators with products."""

NETWORK_DTYPES = tuple(one.name for one in TYPES if one.network is not None)
"""Data types that a network is lowered in."""

WIDE = "float32"
"""Data type of a network's arithmetic, unless it is quantised or its target computes in a narrower type."""

INT8 = "int8"
"""Data type of quantised networks."""


def data_type(name: str) -> DataType:
    """Traits of a data type by its name; raises KeyError for a type without traits."""
    return _BY_NAME[name]


def known_type(name: str) -> DataType | None:
    """Traits of a data type by its name; None for a type without traits."""
    return _BY_NAME.get(name)


def numpy_type(name: str) -> np.dtype[Any]:
    """NumPy's type of any data type of TVM, such as bfloat16 and bool."""
    known = known_type(name)
    return np.dtype(name) if known is None else known.numpy
